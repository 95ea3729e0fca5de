"""What is read of a device, and that nothing waits for it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ft_assets.checkpoints.telemetry import gpu
from ft_assets.checkpoints.telemetry.gpu import Cpu, Gpu, Samples, device_of
from ft_assets.checkpoints.telemetry.peers import Sample, leave_sample, read_samples
from ft_assets.packs.estimate.hardware import CATALOGUE, GIB


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A GPU number 1 as PyTorch would show it; counts how often its utilisation is asked for."""
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
    cpu = device_of("cpu", None)
    assert isinstance(cpu, Cpu)
    assert cpu.hardware is None
    figures = cpu.figures()
    assert figures.keys() == {"host_memory_gib"}
    assert 0.01 < figures["host_memory_gib"] < 100


def test_a_gpu_is_asked_at_most_once_an_interval_however_often_steps_come(cuda: dict[str, int]) -> None:
    device = device_of("cuda", 1)
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
    device = Gpu(1)
    time.sleep(0.7)
    assert "gpu_utilisation" not in device.figures()
    device.close()
    assert cuda["times"] == 1
    assert "GPU utilisation is not reported: no NVML" in capsys.readouterr().out


def until(found: Callable[[], bool]) -> None:
    """Wait for a thread's deed."""
    deadline = time.monotonic() + 20
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_first_rank_tells_the_most_memory_and_the_mean_utilisation_of_its_node_s_ranks(
    cuda: dict[str, int], tmp_path: Path
) -> None:
    """As other processes would have left it: one with more memory, one whose driver does not tell, one half-written."""
    folder = tmp_path / "samples"
    first = Gpu(1, folder)
    leave_sample(folder, 1, Sample(memory=60 * GIB, reserved=70 * GIB, busy=0.2))
    leave_sample(folder, 2, Sample(memory=30 * GIB, reserved=35 * GIB))
    (folder / "3.json").write_text('{"memory": 1')
    until(lambda: first.figures().get("gpu_utilisation") == 0.5)
    first.close()
    row = first.figures()
    assert (row["gpu_memory_gib"], row["gpu_reserved_gib"]) == (60.0, 70.0)


def test_another_rank_leaves_what_it_sees_and_reads_nothing(cuda: dict[str, int], tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    other = Gpu(1, folder, local=3)
    until(lambda: bool(read_samples(folder)))
    other.close()
    assert read_samples(folder) == [Sample(memory=40 * GIB, reserved=50 * GIB, busy=0.8)]


def test_ranks_whose_driver_does_not_tell_still_leave_their_memory(
    cuda: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def fails(index: int) -> int:
        cuda["times"] += 1
        raise ModuleNotFoundError("no NVML")

    monkeypatch.setattr(torch.cuda, "utilization", fails)
    other = Gpu(1, tmp_path, local=1)
    until(lambda: bool(read_samples(tmp_path)))
    (tmp_path / "1.json").unlink()
    until(lambda: bool(read_samples(tmp_path)))
    other.close()
    assert read_samples(tmp_path) == [Sample(memory=40 * GIB, reserved=50 * GIB)]
    assert cuda["times"] == 1


def test_a_step_gets_the_mean_of_the_samples_since_the_last_one_or_what_that_got() -> None:
    samples = Samples()
    assert samples.mean() is None
    samples.add(0.5)
    samples.add(1.0)
    assert samples.mean() == 0.75
    assert samples.mean() == 0.75
    samples.add(0.1)
    assert samples.mean() == 0.1
