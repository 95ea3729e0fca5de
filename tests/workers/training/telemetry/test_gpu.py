"""Figures of a device, read without waiting for it."""

import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ft_assets.settings.gpus import CATALOGUE, GIB
from ft_assets.workers.training.ranks import Ranks
from ft_assets.workers.training.telemetry.gpu import SAMPLE_S, Cpu, Gpu, Samples


class Intervals(threading.Event):
    """An event in place of a device's clock: an interval passes when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float | None] = []
        self._waiting, self._passed = threading.Semaphore(0), threading.Semaphore(0)

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.append(timeout)
        self._waiting.release()
        self._passed.acquire()
        return self.is_set()

    def pass_one(self) -> None:
        """Let one pass, and the device do what it does after it."""
        (watching,) = (each for each in threading.enumerate() if each.name == "gpu-samples")
        self._waiting.acquire()
        self._passed.release()
        while watching.is_alive() and not self._waiting.acquire(timeout=0.01):
            pass
        self._waiting.release()

    def set(self) -> None:
        super().set()
        self._passed.release()


@pytest.fixture
def intervals() -> Iterator[Intervals]:
    found = Intervals()
    yield found
    found.set()
    for each in threading.enumerate():
        if each.name == "gpu-samples":
            each.join()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """GPU number 1 as PyTorch shows it; counts the requests for its utilisation."""
    import torch

    asked = {"times": 0}

    def utilization(index: int) -> int:
        assert index == 1
        asked["times"] += 1
        return 80

    def waits(*_: Any) -> None:
        raise AssertionError("nothing here may wait for the device")

    monkeypatch.setattr(torch.cuda, "utilization", utilization)
    monkeypatch.setattr(torch.cuda, "get_device_name", {1: "NVIDIA H200"}.__getitem__)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", {1: 40 * GIB}.__getitem__)
    monkeypatch.setattr(torch.cuda, "memory_reserved", {1: 50 * GIB}.__getitem__)
    for name in ("synchronize", "mem_get_info"):
        monkeypatch.setattr(torch.cuda, name, waits)
    return asked


def test_a_cpu_tells_what_the_process_has_in_memory_and_nothing_else() -> None:
    cpu = Cpu()
    assert cpu.hardware is None
    figures = cpu.figures()
    assert figures.keys() == {"host_memory_gib"}
    assert 0.01 < figures["host_memory_gib"] < 100


def test_a_gpu_is_asked_once_an_interval_however_often_steps_come(cuda: dict[str, int], intervals: Intervals) -> None:
    device = Gpu(1, Ranks(), intervals)
    for _ in range(9):
        assert "gpu_utilisation" not in device.figures()
    intervals.pass_one()
    for _ in range(9):
        row = device.figures()
        assert (row["gpu_memory_gib"], row["gpu_reserved_gib"], row["gpu_utilisation"]) == (40.0, 50.0, 0.8)
    assert cuda["times"] == 1
    assert intervals.asked == [SAMPLE_S, SAMPLE_S]
    assert device.hardware is CATALOGUE["H200"]


def test_a_driver_that_does_not_tell_is_asked_once_and_costs_a_column(
    cuda: dict[str, int], intervals: Intervals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    def fails(index: int) -> int:
        raise ModuleNotFoundError("no NVML")

    monkeypatch.setattr(torch.cuda, "utilization", fails)
    device = Gpu(1, Ranks(), intervals)
    intervals.pass_one()
    assert "gpu_utilisation" not in device.figures()
    assert intervals.asked == [SAMPLE_S]
    assert "GPU utilisation is not reported: no NVML" in capsys.readouterr().out


def test_the_first_rank_tells_the_most_memory_and_the_mean_utilisation_of_the_ranks(
    cuda: dict[str, int], intervals: Intervals
) -> None:
    class Three(Ranks):
        def gathered(self, values: Sequence[float]) -> list[list[float]]:
            """Two other ranks: one with more memory, and one whose driver does not report utilisation."""
            return [list(values), [60 * GIB, 70 * GIB, 0.2], [30 * GIB, 35 * GIB, math.nan]]

    first = Gpu(1, Three(world=3), intervals)
    intervals.pass_one()
    row = first.figures()
    assert (row["gpu_memory_gib"], row["gpu_reserved_gib"], row["gpu_utilisation"]) == (60.0, 70.0, 0.5)


def test_a_step_gets_the_mean_of_the_samples_since_the_last_one_or_what_that_got() -> None:
    samples = Samples()
    assert math.isnan(samples.mean())
    samples.add(0.5)
    samples.add(1.0)
    assert samples.mean() == 0.75
    assert samples.mean() == 0.75
    samples.add(0.1)
    assert samples.mean() == 0.1
