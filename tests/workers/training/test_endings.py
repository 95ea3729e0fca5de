"""Runs that cannot continue name the cause, and leave their last good save."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ft_assets.workers.training import failing_example, memory
from ft_assets.workers.training.memory import memory_explained
from ft_assets.workers.training.methods import sft
from ft_assets.workers.training.state import RunState
from ft_assets.workers.training.train import train
from ft_resources.errors import BadData, BadRecipe, OutOfMemory, StoreUnavailable
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
