"""Ranks that share their windows, each with a slice of the tokens, train like one process."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ft_assets.workers.training.train import train
from ft_resources.errors import BadRecipe
from ft_resources.worker_context import Preempted, WorkResult
from tests.workers.training.conftest import Bench, content, make_bench
from tests.workers.training.families import FAMILIES, family_bench
from tests.workers.training.test_ranks import assert_same_training, at_step, has_saved, kill_rank, rows

pytestmark = pytest.mark.training

# Five windows a step: two groups of ranks read one at a time, so one computes a stand-in for its third.
SETTINGS: dict[str, Any] = {
    "global_batch_size": 5,
    "micro_batch_size": 1,
    "learning_rate": 1e-3,
    "validate_every_steps": 2,
}


def bench_of(folder: Path, kind: str, ranks: int = 1, together: int = 1, **settings: Any) -> Bench:
    bench = family_bench(folder, FAMILIES[kind], **{**SETTINGS, **settings})
    bench.runtime |= {"processes": ranks, "context_parallel": together}
    return bench


def assert_equal_within_rounding(one: WorkResult, other: WorkResult) -> None:
    assert content(one)["ledger.jsonl"] == content(other)["ledger.jsonl"]
    assert rows(one, "tokens") == rows(other, "tokens")
    for key in ("loss", "validation_loss", "grad_norm"):
        assert rows(one, key) == pytest.approx(rows(other, key), rel=1e-5), key
    (mine, theirs) = (load_file(next((each.folder / "final").glob("*.safetensors"))) for each in (one, other))
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        torch.testing.assert_close(theirs[name], value, rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., WorkResult]:
    """The training of one rank."""

    @cache
    def trained(kind: str, variant: str) -> WorkResult:
        return train(bench_of(tmp_path_factory.mktemp("alone"), kind, variant=variant).context())

    return trained


# All have half as many key heads as query heads; that of Gemma has layers with a sliding window.
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("kind", "variant", "ranks", "sharding"),
    [
        ("llama", "lora", 2, "zero3"),
        ("gemma3_text", "full", 4, "fsdp"),
        # A recomputed one of this below; its layers are those of the others.
        pytest.param("llama", "lora", 2, "none", marks=pytest.mark.long),
        pytest.param("gemma3_text", "lora", 2, "none", marks=pytest.mark.long),
        pytest.param("llama", "lora", 4, "none", marks=pytest.mark.long),
        pytest.param("gemma3_text", "full", 2, "none", marks=pytest.mark.long),
        pytest.param("gemma3_text", "full", 2, "zero2", marks=pytest.mark.long),
    ],
)
def test_ranks_that_share_their_windows_train_as_one_does(
    tmp_path: Path, alone: Callable[..., WorkResult], kind: str, variant: str, ranks: int, sharding: str
) -> None:
    bench = bench_of(tmp_path, kind, ranks, 2, variant=variant)
    bench.runtime["sharding"] = sharding
    assert_equal_within_rounding(alone(kind, variant), train(bench.context()))


@pytest.mark.usefixtures("quick")
def test_recomputed_layers_exchange_again(tmp_path: Path, alone: Callable[..., WorkResult]) -> None:
    bench = bench_of(tmp_path, "llama", 2, 2)
    bench.runtime["recompute"] = 1
    assert_equal_within_rounding(alone("llama", "lora"), train(bench.context()))


@pytest.mark.usefixtures("quick")
def test_after_a_kill_ranks_that_share_their_windows_resume_to_equal_bytes(tmp_path: Path) -> None:
    benches = [make_bench(tmp_path / name, **SETTINGS, epochs=8, dropout=0.1) for name in ("quiet", "killed")]
    for bench in benches:
        bench.runtime |= {"processes": 2, "context_parallel": 2}
    quiet, killed = benches
    kill_after_a_save(killed)
    resumed = train(killed.context(2))
    assert resumed.facts["resumed"][-1]["step"] >= 3
    assert content(train(quiet.context())) == content(resumed)


@pytest.mark.usefixtures("quick")
def test_one_rank_goes_on_with_what_two_with_shared_windows_saved(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SETTINGS, "epochs": 8, "dropout": 0.0}
    alone = train(make_bench(tmp_path / "alone", **settings).context())
    bench = make_bench(tmp_path / "changing", **settings)
    bench.runtime |= {"processes": 2, "context_parallel": 2}
    kill_after_a_save(bench)
    bench.runtime |= {"processes": 1, "context_parallel": 1}
    resumed = train(bench.context(2))
    assert resumed.facts["resumed"][-1]["step"] >= 3
    assert_same_training(alone, resumed)


def kill_after_a_save(bench: Bench) -> None:
    context = bench.context()
    at_step(context, 4, partial(kill_rank, context, 1), partial(has_saved, context))
    with pytest.raises(Preempted):
        train(context)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("kind", "ranks", "together", "packing", "reason"),
    [
        ("lfm2", 2, 2, "auto", "documents of this base run apart"),
        ("llama", 2, 2, "apart", "set in the recipe"),
        ("llama", 4, 4, "auto", "2 key/value heads cannot be divided evenly among 4"),
        ("llama", 3, 2, "auto", "3 processes of a node cannot be divided"),
    ],
)
def test_what_cannot_be_divided_is_refused_before_anything_is_learned(
    tmp_path: Path, kind: str, ranks: int, together: int, packing: str, reason: str
) -> None:
    bench = bench_of(tmp_path, kind, ranks, together)
    bench.params["packing"] = packing
    context = bench.context()
    reported = at_step(context, 1, lambda: None)
    with pytest.raises(BadRecipe, match=reason) as caught:
        train(context)
    assert caught.value.where == "hardware.context_parallel"
    assert reported == []
