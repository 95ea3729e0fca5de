"""Ranks that share their windows, and fewer processes that compute as more: they train like one process."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ft_assets.settings.layout import layout_of
from ft_assets.workers.training.data_ledger import check_ledger
from ft_assets.workers.training.distributed.virtual import VirtualRanks, summed
from ft_assets.workers.training.ranks import Ranks
from ft_assets.workers.training.train import train
from ft_resources.errors import BadRecipe
from ft_resources.worker_context import Preempted, WorkResult
from tests.workers.training.conftest import Bench, content, make_bench
from tests.workers.training.families import FAMILIES, family_bench
from tests.workers.training.test_ranks import assert_same_training, at_step, has_saved, kill_rank, rows
from tests.workers.training.test_train import run_killed_at
from tests.workers.training.variety import make_variety

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


# Seven windows a step, one at a time, among four: the last micro-batch leaves one of them nothing.
VIRTUAL: dict[str, Any] = {"dropout": 0.1, "epochs": 2, "global_batch_size": 7, "micro_batch_size": 1}


def elastic(folder: Path, processes: int, **settings: Any) -> Bench:
    bench = make_bench(folder, **{**VIRTUAL, **settings})
    bench.runtime |= {"processes": processes, "virtual_ranks": 4}
    return bench


def weights(content: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in content.items() if name.startswith("final/") or name == "ledger.jsonl"}


@pytest.mark.usefixtures("quick")
def test_a_training_has_the_same_bytes_on_one_two_and_four_processes(tmp_path: Path) -> None:
    one, two, four = (
        weights(content(train(elastic(tmp_path / str(processes), processes).context()))) for processes in (1, 2, 4)
    )
    assert any(name.endswith(".safetensors") for name in one)
    assert one == two == four


@pytest.mark.usefixtures("quick")
def test_so_has_one_whose_loss_depends_on_a_sum_over_the_step(tmp_path: Path) -> None:
    found = []
    for processes in (1, 2):
        bench = make_variety(tmp_path / str(processes), "kto", "lora", max_steps=2, micro_batch_size=1)
        bench.params["lora"]["dropout"] = 0.1
        bench.runtime |= {"processes": processes, "virtual_ranks": 4}
        found.append(weights(content(train(bench.context()))))
    assert found[0] == found[1]


@pytest.mark.usefixtures("quick")
def test_a_training_that_changes_its_size_at_saves_has_the_bytes_of_one_that_does_not(tmp_path: Path) -> None:
    quiet = train(elastic(tmp_path / "quiet", 2, epochs=12).context())
    bench = elastic(tmp_path / "changing", 1, epochs=12)
    run_killed_at(bench, 1, 5)
    for attempt, processes in ((2, 4), (3, 2)):
        bench.runtime["processes"] = processes
        context = bench.context(attempt)
        reported = at_step(context, 5 * attempt, context._stopping.set, partial(has_saved, context))
        with pytest.raises(Preempted):
            train(context)
        assert 3 < reported[-1] < bench.order.steps
    bench.runtime["processes"] = 1
    resumed = train(bench.context(4))
    assert resumed.facts["resumed"][-1]["attempt"] == 3
    assert weights(content(resumed)) == weights(content(quiet))
    assert check_ledger(content(resumed)["ledger.jsonl"].decode().splitlines(), bench.pack, bench.order) == []


@pytest.mark.usefixtures("quick")
def test_without_dropout_it_is_the_training_of_one_process_but_for_rounding(tmp_path: Path) -> None:
    alone = train(make_bench(tmp_path / "alone", **{**VIRTUAL, "dropout": 0.0}).context())
    assert_same_training(alone, train(elastic(tmp_path / "two", 2, dropout=0.0).context()))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8, 12])
def test_the_order_of_the_sum_is_that_of_any_number_of_processes(count: int) -> None:
    generator = torch.Generator().manual_seed(count)
    parts = [torch.randn(64, generator=generator) * 10.0**each for each in range(-count // 2, count - count // 2)]
    whole = summed(parts)
    halves = count
    while halves % 2 == 0:
        halves //= 2
        each = count // halves
        assert torch.equal(whole, summed([summed(parts[place * each : (place + 1) * each]) for place in range(halves)]))


def test_a_virtual_rank_without_gradients_adds_nothing() -> None:
    layer = torch.nn.Linear(3, 1)
    sharding = VirtualRanks()
    for row in (torch.ones(3), None, torch.full((3,), 2.0), None):
        if row is not None:
            layer(row).sum().backward()
        sharding.end_part(layer)
    sharding.complete_gradients(layer, Ranks(virtual=4))
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[3.0, 3.0, 3.0]]


@pytest.mark.parametrize(
    "runtime",
    [{"processes": 3, "virtual_ranks": 4}, {"processes": 2, "virtual_ranks": 4, "sharding": "fsdp"}],
    ids=["not a divisor", "in shards"],
)
def test_a_layout_that_cannot_divide_its_virtual_ranks_is_refused(runtime: dict[str, Any]) -> None:
    with pytest.raises(BadRecipe, match="4 virtual ranks"):
        layout_of(runtime)
