"""Runs that cannot continue name the cause, and leave their last good save."""

import json
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ft_assets.workers.training import failing_example, memory
from ft_assets.workers.training.distributed.gpu_health import faults_of
from ft_assets.workers.training.distributed.preflight import Health, in_common, judge, rdma_faults
from ft_assets.workers.training.memory import memory_explained
from ft_assets.workers.training.methods import sft
from ft_assets.workers.training.state import RunState
from ft_assets.workers.training.train import train
from ft_resources.attempts import Attempt
from ft_resources.errors import BadData, BadRecipe, OutOfMemory, SickNode, StoreUnavailable
from ft_resources.store import Store
from ft_resources.worker_context import Preempted
from tests.workers.training.conftest import Bench, make_bench, publish
from tests.workers.training.test_train import assert_same, run_stopped_at

pytestmark = pytest.mark.training


def test_running_out_of_memory_says_what_was_predicted_and_used_and_what_to_change(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(model: Any, batch: Any) -> torch.Tensor:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(sft, "summed_loss", too_much)
    bench.runtime["predicted_memory_bytes"] = 3 << 30
    with pytest.raises(OutOfMemory, match=r"3\.00 GiB were predicted") as caught:
        train(bench.context())
    peak = re.search(r"it had ([\d.]+) GiB of memory at its peak", caught.value.what)
    assert peak is not None
    assert float(peak[1]) > 0.1
    for way in ("training.recompute: on", "training.micro_batch_size (to 1 or less)", "packing.max_length", "qlora"):
        assert way in caught.value.remedy


@pytest.mark.parametrize(
    ("runtime", "named"),
    [
        ({"recompute": False, "origins": {"training.recompute": "auto: not needed: at most 9 GiB"}}, True),
        ({"recompute": False, "origins": {"training.recompute": "recipe"}}, False),
        ({"recompute": True, "origins": {"training.recompute": "auto: it would not fit"}}, False),
    ],
)
def test_recomputation_is_advised_where_it_is_off_and_the_recipe_did_not_forbid_it(
    runtime: dict[str, Any], named: bool
) -> None:
    told = {"device": "cpu", "predicted_memory_bytes": 2 << 30, "micro_batch_size": 4, **runtime}
    with pytest.raises(OutOfMemory, match=r"2\.00 GiB were predicted with 4 windows") as caught:
        with memory_explained({"variant": "full"}, told, 1):
            raise MemoryError
    assert ("recompute: on" in caught.value.remedy) is named
    assert "micro_batch_size" not in caught.value.remedy


@pytest.mark.parametrize(
    ("variant", "origins", "named"),
    [("full", {}, True), ("full", {"training.weights": "auto: float32 is the most exact"}, False), ("lora", {}, False)],
)
def test_less_exact_weights_are_advised_for_full_training_that_did_not_say_which(
    variant: str, origins: dict[str, str], named: bool
) -> None:
    with pytest.raises(OutOfMemory) as caught:
        with memory_explained({"variant": variant}, {"device": "cpu", "origins": origins}, 1):
            raise MemoryError
    assert ("training.weights and training.optimizer to auto" in caught.value.remedy) is named


@pytest.mark.parametrize(
    ("method", "recompute", "windows", "named"),
    [("sft", 1, 1, "context_parallel: 4"), ("sft", 1, 2, ""), ("sft", 0, 1, ""), ("dpo", 1, 1, "")],
)
@pytest.mark.parametrize("offload", [False, True])
def test_where_one_window_does_not_fit_more_gpus_may_share_it(
    method: str, recompute: int, windows: int, named: str, offload: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once activations are offloaded, which needs no larger GPU."""
    monkeypatch.setattr(memory, "_peak_bytes", lambda device: 70 << 30)
    runtime = {"device": "cuda", "recompute": recompute, "offload": offload, "processes": 4, "context_parallel": 2}
    with pytest.raises(OutOfMemory) as caught:
        with memory_explained({"variant": "lora", "method": method}, runtime, windows):
            raise MemoryError
    remedy = caught.value.remedy
    assert named in remedy or not offload
    assert ("training.offload: on" in remedy) is (recompute > 0 and not offload)
    assert ("context_parallel" in remedy) is (bool(named) and offload)


@pytest.mark.parametrize("target", ["layers.99.self_attn.q_proj", "other.q_proj", "(q|k)_proj", "wte"])
def test_a_module_that_the_base_lacks_is_the_recipes_mistake_and_not_tried_again(bench: Bench, target: str) -> None:
    bench.params["lora"]["target_modules"] = ["layers.0.self_attn.q_proj", "v_proj", target]
    with pytest.raises(BadRecipe, match=re.escape(f"the base has no module {target!r}")):
        train(bench.context())


def test_a_token_that_the_model_does_not_have_names_its_example_and_no_other(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    pack = bench.pack
    window, document = int(list(bench.order.read())[4].windows[1]), 1
    read = pack.read([window])
    # The packs of tests are one shard in which windows and documents lie in order.
    token = int(pack.window_lengths[:window].sum() + read.document_lengths[:document].sum()) + 2
    damaged = tmp_path / "pack"
    ids = np.load(damaged / "train" / "00000.input_ids.npy")
    ids[token] = 10**6
    np.save(damaged / "train" / "00000.input_ids.npy", ids)
    bench.inputs["pack"] = publish(bench.store, damaged.rename(tmp_path / "damaged"), "token_pack", "acme")
    with pytest.raises(BadData, match="step 5 of") as caught:
        train(bench.context())
    guilty = int(read.examples[document])
    assert f"row {pack.example_row(guilty)} ({pack.example_id(guilty)})" in caught.value.what
    others = set(read.examples.tolist()) - {guilty}
    assert not any(pack.example_id(other) in str(caught.value) for other in others)


def test_a_save_that_fails_ends_the_run_with_its_own_error_at_the_next_step(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ft_assets.workers.training import saver

    def full(folder: Path, state: RunState) -> None:
        raise StoreUnavailable("the disk is full", where=str(folder))

    monkeypatch.setattr(saver, "write_state", full)
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        train(bench.context())
    assert not list(bench.store.entries(f"{bench.spec().attempt_path}/saves"))


def test_a_stop_in_the_middle_of_a_long_step_gives_it_up_and_saves_the_step_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ft_assets.workers.training.stop_requests import Stops

    quiet = train(make_bench(tmp_path / "quiet").context())
    bench = make_bench(tmp_path / "stopped")
    context = bench.context(1)
    monkeypatch.setattr(Stops, "rest_of_step_s", lambda self, done, of: 1e6)
    calls = 0
    asked = Stops.asked

    def ask(self: Stops) -> bool:
        nonlocal calls
        calls += 1
        if calls == 12:
            context._stopping.set()
        return asked(self)

    monkeypatch.setattr(Stops, "asked", ask)
    with pytest.raises(Preempted):
        train(context)
    monkeypatch.undo()
    (save,) = bench.store.folders(f"{bench.spec(1).attempt_path}/saves")[-1:]
    resumed = train(bench.context(2))
    assert resumed.facts["resumed"] == [{"attempt": 1, "step": int(save)}]
    assert_same(quiet, resumed)


def test_a_stop_that_no_save_fits_into_ends_on_the_last_periodic_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ft_assets.workers.training.stop_requests import Stops

    bench = make_bench(tmp_path)
    monkeypatch.setattr(Stops, "fits", lambda self, seconds: False)
    run_stopped_at(bench, 1, 5)
    assert bench.store.folders(f"{bench.spec(1).attempt_path}/saves") == ["000003"]


def test_a_model_that_computes_none_of_its_documents_is_at_fault_and_no_row_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an architecture reads the weights of a layer that are in 4 bits."""

    def broken(*_: object) -> None:
        raise RuntimeError("result type Float can't be cast")

    monkeypatch.setattr(sft, "token_losses", broken)
    monkeypatch.setattr(failing_example, "token_losses", broken)
    with pytest.raises(RuntimeError, match="result type Float"):
        train(make_bench(tmp_path).context())


class NoAnswer(Exception):
    """NVML's error."""


class Nvml:
    """pynvml's answers for a healthy GPU, except for ``changes``: answers by name, None for what it does not have."""

    NVMLError = NoAnswer
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, NVML_NVLINK_MAX_LINKS = 1, 0, 18
    nvmlClocksEventReasonHwThermalSlowdown, nvmlClocksEventReasonHwPowerBrakeSlowdown = 0x40, 0x80

    def __init__(self, **changes: Any) -> None:
        well = {
            "TotalEccErrors": 0,
            "RemappedRows": (3, 1, 0, 0),
            # At rest, and not slowed down by hardware.
            "CurrentClocksEventReasons": 0x1,
            "CurrPcieLinkWidth": 16,
            "MaxPcieLinkWidth": 16,
            "NvLinkState": [1] * 18,
        }
        self._answers = {**well, **changes}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        answer = self._answers[name.removeprefix("nvmlDeviceGet")]

        def asked(_gpu: object, *which: int) -> Any:
            if answer is None or (isinstance(answer, list) and which[0] >= len(answer)):
                raise NoAnswer
            return answer[which[0]] if isinstance(answer, list) else answer

        return asked


def test_a_gpu_that_is_well_has_no_faults_nor_one_that_lacks_what_others_have() -> None:
    assert list(faults_of(Nvml(), "gpu")) == []
    lacking = dict.fromkeys(("TotalEccErrors", "RemappedRows", "CurrentClocksEventReasons", "CurrPcieLinkWidth"))
    assert list(faults_of(Nvml(**lacking, NvLinkState=[]), "gpu")) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"TotalEccErrors": 2}, "its memory had 2 errors that could not be corrected"),
        ({"RemappedRows": (0, 8, 1, 1)}, "it has no spare memory rows left"),
        ({"RemappedRows": (0, 1, 1, 0)}, "it must be reset to replace memory rows"),
        ({"CurrentClocksEventReasons": 0x41}, "heat slows it down"),
        ({"CurrentClocksEventReasons": 0x80}, "a shortage of power slows it down"),
        ({"CurrPcieLinkWidth": 8}, "its PCIe link has 8 of 16 lanes"),
        ({"NvLinkState": [1] * 16 + [0] * 2}, "2 of its 18 NVLinks are down"),
    ],
)
def test_each_fault_is_told_in_words(changes: dict[str, Any], said: str) -> None:
    assert list(faults_of(Nvml(**changes), "gpu")) == [said]


def gpus(*tflops: float) -> list[Health]:
    """Two ranks per node."""
    return [Health(rank=rank, node=f"gpu-{rank // 2}", tflops=each) for rank, each in enumerate(tflops)]


def test_a_node_is_named_whose_gpu_multiplies_more_slowly_than_the_others_do() -> None:
    assert judge(gpus(700, 690, 710, 400)) == {
        "gpu-1": "the GPU of rank 3: it multiplies at 400 TFLOP/s, others at 695"
    }
    assert judge(gpus(700, 690, 710, 600)) == {}
    assert judge(gpus(0, 0)) == {}


def test_a_node_is_named_for_each_gpu_of_it_that_is_not_well() -> None:
    found = [Health(rank=rank, node="gpu-0", faults=("it burns", "it smells")) for rank in range(2)]
    assert judge(found) == {"gpu-0": "the GPU of rank 0: it burns, it smells; the GPU of rank 1: it burns, it smells"}


LOCKED = "a process there may lock too little"


def test_how_one_node_is_set_up_is_that_nodes_fault_and_how_all_are_is_none_s() -> None:
    well, wrong = (
        tuple(Health(rank=at, node=f"gpu-{at}", settings=said) for at in range(2)) for said in ((), (LOCKED,))
    )
    assert in_common([well[0], wrong[1]]) == []
    assert judge([well[0], wrong[1]]) == {"gpu-1": f"the GPU of rank 1: {LOCKED}"}
    assert in_common(wrong) == [LOCKED]
    assert judge(wrong, in_common(wrong)) == {}


@pytest.mark.parametrize(("limit", "told"), [(8 << 20, True), (resource.RLIM_INFINITY, False), (4 << 30, False)])
def test_a_limit_on_locked_memory_by_which_nccl_would_silently_take_tcp_is_a_fault_where_there_is_rdma(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, told: bool
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert list(rdma_faults(tmp_path / "none")) == []
    words = ["a process there may lock less than 1024 MiB of memory, too little for RDMA"]
    assert list(rdma_faults(tmp_path)) == (words if told else [])


def two_nodes(folder: Path) -> Bench:
    bench = make_bench(folder, dropout=0.0, epochs=1, global_batch_size=4, micro_batch_size=2)
    bench.runtime |= {"processes": 1, "nodes": 2}
    return bench


def recorded(store: Store, path: str) -> dict[str, Any]:
    found: dict[str, Any] = store.get_json(f"{path}/preflight.json")
    return found


@pytest.mark.usefixtures("quick")
def test_two_nodes_that_are_well_leave_their_bandwidth_and_train(tmp_path: Path) -> None:
    bench = two_nodes(tmp_path)
    assert train(bench.context()).facts["steps"] > 0
    record = recorded(bench.store, bench.spec().attempt_path)
    assert record["all_reduce_gb_s"] > 0
    assert ([each["rank"] for each in record["ranks"]], record["sick"]) == ([0, 1], {})


def test_a_sick_node_ends_the_attempt_by_name_before_it_trains_and_is_known_to_the_next(
    tmp_path: Path, plant: Callable[..., None]
) -> None:
    plant("second_node_is_sick")
    bench = two_nodes(tmp_path)
    with pytest.raises(SickNode) as caught:
        train(bench.context())
    assert caught.value.what == "node gpu-1 is not well: the GPU of rank 1: it has no spare memory rows left"
    spec = bench.spec()
    assert Attempt(bench.store, spec.address, spec.attempt).sick_nodes() == ["gpu-1"]
    assert not list(bench.store.folders(f"{spec.attempt_path}/saves"))


@pytest.mark.parametrize("record", [b"[]", b"{", json.dumps({"sick": {"-x": "", "Gpu 1": "", "a" * 300: ""}}).encode()])
def test_names_that_no_node_has_are_not_believed(tmp_path: Path, record: bytes) -> None:
    bench = make_bench(tmp_path)
    spec = bench.spec()
    bench.store.put(f"{spec.attempt_path}/preflight.json", record)
    assert Attempt(bench.store, spec.address, spec.attempt).sick_nodes() == []
