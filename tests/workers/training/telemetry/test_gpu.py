"""Figures of a device, read without waiting for it."""

import math
import time
from collections.abc import Sequence
from typing import Any

import pytest

from ft_assets.settings.gpus import CATALOGUE, GIB
from ft_assets.workers.training.ranks import Ranks
from ft_assets.workers.training.telemetry import gpu
from ft_assets.workers.training.telemetry.gpu import Cpu, Gpu, Samples


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
    monkeypatch.setattr(gpu, "SAMPLE_S", 0.2)
    return asked


def test_a_cpu_tells_what_the_process_has_in_memory_and_nothing_else() -> None:
    cpu = Cpu()
    assert cpu.hardware is None
    figures = cpu.figures()
    assert figures.keys() == {"host_memory_gib"}
    assert 0.01 < figures["host_memory_gib"] < 100


def test_a_gpu_is_asked_at_most_once_an_interval_however_often_steps_come(cuda: dict[str, int]) -> None:
    device = Gpu(1, Ranks())
    began = time.monotonic()
    row: dict[str, Any] = {}
    while "gpu_utilisation" not in row and time.monotonic() - began < 10:
        row = device.figures()
    device.close()
    assert cuda["times"] <= (time.monotonic() - began) / 0.2 + 1
    assert (row["gpu_memory_gib"], row["gpu_reserved_gib"], row["gpu_utilisation"]) == (40.0, 50.0, 0.8)
    assert device.hardware is CATALOGUE["H200"]


def test_a_driver_that_does_not_tell_is_asked_once_and_costs_a_column(
    cuda: dict[str, int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    def fails(index: int) -> int:
        cuda["times"] += 1
        raise ModuleNotFoundError("no NVML")

    monkeypatch.setattr(torch.cuda, "utilization", fails)
    device = Gpu(1, Ranks())
    time.sleep(0.7)
    assert "gpu_utilisation" not in device.figures()
    device.close()
    assert cuda["times"] == 1
    assert "GPU utilisation is not reported: no NVML" in capsys.readouterr().out


def test_the_first_rank_tells_the_most_memory_and_the_mean_utilisation_of_the_ranks(cuda: dict[str, int]) -> None:
    class Three(Ranks):
        def gathered(self, values: Sequence[float]) -> list[list[float]]:
            """Two other ranks: one with more memory, and one whose driver does not report utilisation."""
            return [list(values), [60 * GIB, 70 * GIB, 0.2], [30 * GIB, 35 * GIB, math.nan]]

    first = Gpu(1, Three(world=3))
    row: dict[str, Any] = {}
    deadline = time.monotonic() + 20
    while row.get("gpu_utilisation") != 0.5 and time.monotonic() < deadline:
        row = first.figures()
    first.close()
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
