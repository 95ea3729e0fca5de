"""Figures of a device, read without waiting for it; MFU by hand; the page for Prometheus."""

import math
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ft_assets.settings.gpus import CATALOGUE, GIB, find_hardware
from ft_assets.settings.recipe.training import LoraSettings, TrainingSettings
from ft_assets.workers.model_size.model_size import read_architecture
from ft_assets.workers.model_size.time import Work, training_seconds
from ft_assets.workers.training.ranks import Ranks
from ft_assets.workers.training.telemetry.flops import Yardstick, make_setup
from ft_assets.workers.training.telemetry.gpu import SAMPLE_S, Cpu, Gpu, Samples
from ft_assets.workers.training.telemetry.prometheus import PORT, MetricsPage, open_page
from ft_resources.artifacts import Address
from ft_resources.work import WorkSpec
from tests.workers.packs.estimate.made import LLAMA_3_8B


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


WORK = Work(tokens=1000, steps=1, learned=1.0, document_length=4096)


def setup(variant: str, gpus: int = 1) -> Any:
    params = {
        "variant": variant,
        "training": TrainingSettings(precision="bf16").model_dump(mode="json"),
        "lora": None if variant == "full" else LoraSettings(rank=16).model_dump(mode="json"),
    }
    return make_setup(params, {}, gpus)


def yardstick(variant: str, gpus: int = 1) -> Yardstick:
    return Yardstick(model=read_architecture(LLAMA_3_8B), setup=setup(variant, gpus), gpu=find_hardware("NVIDIA H200"))


@pytest.mark.parametrize(("variant", "each"), [("full", 6), ("lora", 4), ("qlora", 4)])
def test_a_frozen_parameter_counts_four_operations_a_token_and_a_trained_one_six(variant: str, each: int) -> None:
    # Llama-3-8B: 32 layers of 2·4096² + 2·4096·1024 + 3·4096·14336 and a head of 128256·4096; no embedding.
    matrices = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 128256 * 4096
    adapters = 0 if variant == "full" else 32 * 16 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336))
    # Scores and their sum over values, forward and twice backward, over half of the square.
    attention = 3 * 32 * 4 * 4096 * 4096 / 2
    flops = 1000 * (each * matrices + 6 * adapters + attention)
    mfu = yardstick(variant).mfu(WORK, seconds=0.08)
    assert mfu == pytest.approx(flops / (0.08 * 989e12), abs=1e-4)


def test_twice_the_gpus_for_the_same_time_is_half_the_utilisation() -> None:
    one, two = yardstick("full").mfu(WORK, 0.1), yardstick("full", gpus=2).mfu(WORK, 0.1)
    assert one is not None
    assert two == pytest.approx(one / 2, abs=1e-4)


def test_the_expected_speed_is_that_of_the_estimate() -> None:
    full = yardstick("full")
    assert full.model is not None
    seconds = training_seconds(full.model, full.setup, WORK, CATALOGUE["H200"]).expected
    assert full.expected_tokens_per_s(WORK) == 1000 / seconds


def test_on_a_cpu_and_for_a_gpu_or_a_model_that_is_not_known_there_is_no_utilisation() -> None:
    for unknown in (replace(yardstick("lora"), gpu=None), replace(yardstick("lora"), model=None)):
        assert unknown.mfu(WORK, 0.1) is None
        assert unknown.expected_tokens_per_s(WORK) is None


@pytest.fixture
def spec(tmp_path: Path) -> WorkSpec:
    return WorkSpec(
        asset="checkpoint",
        store_url=str(tmp_path),
        address=Address(tenant="acme", asset="checkpoint", fingerprint="ab" * 32),
        attempt=3,
        identity={},
        inputs={},
        params={},
        runtime={},
        label="acme.books.v1|tiny.v1",
        actor="ann",
    )


def scraped(page: MetricsPage) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_the_newest_number_of_each_column_is_a_gauge_that_says_whose_it_is(spec: WorkSpec) -> None:
    page = MetricsPage(spec, 0)
    try:
        page.show({"step": 1, "loss": 3.0, "mfu": None, "rewards/chosen": 0.5, "note": "text"})
        page.show({"step": 2, "loss": 2.5})
        labels = '{attempt="3",dataset="acme.books.v1",recipe="tiny.v1",tenant="acme"}'
        names = {"step": 2.0, "loss": 2.5, "rewards_chosen": 0.5}
        assert scraped(page) == {f"ft_training_{name}{labels}": value for name, value in names.items()}
    finally:
        page.close()


def test_nothing_is_served_unless_asked_for(spec: WorkSpec, capsys: pytest.CaptureFixture[str]) -> None:
    assert open_page(spec, {}) is None
    assert open_page(spec, {PORT: ""}) is None
    assert capsys.readouterr().out == ""


def test_a_port_that_is_taken_or_no_port_is_a_warning(spec: WorkSpec, capsys: pytest.CaptureFixture[str]) -> None:
    first = open_page(spec, {PORT: "0"})
    assert first is not None
    try:
        for port in (str(first.port), "many", "99999"):
            assert open_page(spec, {PORT: port}) is None
            assert f"warning: no metrics on port '{port}'" in capsys.readouterr().out
    finally:
        first.close()
    again = open_page(spec, {PORT: str(first.port)})
    assert again is not None, "a page that is closed frees its port"
    again.close()


def test_without_the_library_training_goes_on(spec: WorkSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert open_page(spec, {PORT: "0"}) is None
