"""Virtual ranks: a training of adapters gives the same bytes with any number of processes."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from ft_assets.settings.layout import layout_of
from ft_assets.workers.training.data_ledger import check_ledger
from ft_assets.workers.training.distributed.virtual import VirtualRanks, summed
from ft_assets.workers.training.ranks import Ranks
from ft_assets.workers.training.train import train
from ft_resources.errors import BadRecipe
from ft_resources.worker_context import Preempted
from tests.workers.training.conftest import Bench, content, make_bench
from tests.workers.training.test_ranks import assert_same_training, at_step, has_saved
from tests.workers.training.test_train import run_killed_at
from tests.workers.training.variety import make_variety

pytestmark = pytest.mark.training

# Seven windows a step, one at a time, among four: the last micro-batch leaves one of them nothing.
SETTINGS: dict[str, Any] = {"dropout": 0.1, "epochs": 2, "global_batch_size": 7, "micro_batch_size": 1}


def elastic(folder: Path, processes: int, **settings: Any) -> Bench:
    bench = make_bench(folder, **{**SETTINGS, **settings})
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
    alone = train(make_bench(tmp_path / "alone", **{**SETTINGS, "dropout": 0.0}).context())
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
