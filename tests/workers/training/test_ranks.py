"""Two ranks train like one process, and so do two nodes: equal losses, the same data, and they end together."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ft_assets.settings.recipe.training import TrainingSettings
from ft_assets.workers.packs.isolation.batches import micro_batch
from ft_assets.workers.training.data_ledger import check_ledger
from ft_assets.workers.training.methods.sft import summed_loss
from ft_assets.workers.training.model import load_base
from ft_assets.workers.training.saves import MODEL, RECORD
from ft_assets.workers.training.train import train
from ft_resources.errors import Diverged
from ft_resources.worker_context import Preempted, WorkContext, WorkResult
from tests.fake_base import make_fake_base
from tests.workers.training.conftest import Bench, content, make_bench, step_rows, write_pack
from tests.workers.training.families import FAMILIES, family_bench
from tests.workers.training.forks import Forks, node_folder, run_ranks
from tests.workers.training.planted import GRAPHS, REFUSED
from tests.workers.training.test_train import run_killed_at
from tests.workers.training.variants.kinds import make_kind

pytestmark = pytest.mark.training

# Five windows a step, one at a time: each step ends with a micro-batch of which one rank has nothing.
SETTINGS: dict[str, Any] = {"dropout": 0.0, "epochs": 2, "global_batch_size": 5, "micro_batch_size": 1}


def two_ranks(folder: Path, **settings: Any) -> Bench:
    bench = make_bench(folder, **settings)
    bench.runtime["processes"] = 2
    return bench


def rows(result: WorkResult, key: str) -> list[float]:
    return [row[key] for row in step_rows(result) if key in row]


def assert_same_training(one: WorkResult, other: WorkResult) -> None:
    """Require the same data, and equal figures and weights up to rounding."""
    assert content(one)["ledger.jsonl"] == content(other)["ledger.jsonl"]
    for key in ("loss", "validation_loss", "grad_norm", "tokens", "learning_rate"):
        assert rows(one, key) == pytest.approx(rows(other, key), rel=1e-4), key
    (mine, theirs) = (load_file(next((each.folder / "final").glob("*.safetensors"))) for each in (one, other))
    assert mine.keys() == theirs.keys()
    assert all(torch.allclose(mine[name], theirs[name], atol=1e-4) for name in mine)


def at_step(context: WorkContext, step: int, act: Any, when: Callable[[], bool] = lambda: True) -> list[int]:
    """Let ``act`` happen once optimizer step ``step`` was reported and ``when`` holds; the list of steps that will have
    been reported."""
    report = context.step
    acted: list[Any] = []
    reported: list[int] = []

    def watch(**metrics: Any) -> None:
        report(**metrics)
        reported.append(metrics["step"])
        if metrics["step"] >= step and not acted and when():
            acted.append(act())

    context.step = watch  # type: ignore[method-assign]
    return reported


def has_saved(context: WorkContext) -> bool:
    """Whether the attempt has a complete save: a thread writes them, so they are complete some steps later."""
    saves = f"{context.spec.attempt_path}/saves"
    return any(context.store.exists(f"{saves}/{step}/{RECORD}") for step in context.store.folders(saves))


def kill_rank(context: WorkContext, rank: int) -> None:
    os.kill(pid_of(context, rank), signal.SIGKILL)


def pid_of(context: WorkContext, rank: int) -> int:
    return int((context.scratch / "ranks" / f"begun-{rank}").read_text())


ONCE: dict[str, Any] = {**SETTINGS, "epochs": 1, "validate_every_steps": 2}
FAMILY: dict[str, Any] = {"epochs": 1, "global_batch_size": 5, "micro_batch_size": 1}


def of_family(kind: str, variant: str, **settings: Any) -> Callable[[Path], Bench]:
    family = replace(FAMILIES[kind], settings=FAMILIES[kind].settings | settings)
    return partial(family_bench, family=family, variant=variant, **FAMILY)


CASES: dict[str, tuple[Callable[[Path], Bench], list[str], list[str]]] = {
    "lora": (partial(make_bench, **ONCE), ["none"], ["fsdp", "zero3"]),
    "full": (partial(make_bench, variant="full", **ONCE), ["fsdp", "zero2"], ["zero3"]),
    "lora+": (partial(make_kind, kind="lora_plus", **ONCE), ["zero3"], ["none", "fsdp"]),
    "dora": (partial(make_kind, kind="dora", **ONCE), ["none"], []),
    "pissa": (partial(make_kind, kind="pissa", **ONCE), ["none"], []),
    "lora, an output layer of its own": (of_family("llama", "lora"), ["fsdp"], ["zero3"]),
    "full, an output layer of its own": (of_family("llama", "full"), ["zero3"], ["fsdp"]),
    "full, experts": (of_family("mixtral", "full"), ["zero3"], ["fsdp"]),
    # Each rank has other lengths, and so another number of forward passes, in each of which shards are gathered.
    "lora, documents apart": (of_family("qwen3_5_text", "lora"), [], ["none", "fsdp", "zero3"]),
    "full, documents apart": (of_family("qwen3_5_text", "full"), ["zero3"], ["none", "fsdp"]),
    "full, the text part of a composite": (of_family("gemma3", "full"), ["fsdp"], ["zero3"]),
    # Each variant of a layer takes seconds to compile.
    "lora, one layer": (of_family("llama", "lora", num_hidden_layers=1), [], []),
    "full, one layer": (of_family("llama", "full", num_hidden_layers=1), [], []),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], WorkResult]:
    """The training of a case by one process."""

    @cache
    def trained(case: str) -> WorkResult:
        return train(CASES[case][0](tmp_path_factory.mktemp("alone")).context())

    return trained


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("case", "sharding"),
    [
        *((case, sharding) for case, (_, corners, _) in CASES.items() for sharding in corners),
        *(
            pytest.param(case, sharding, marks=pytest.mark.long)
            for case, (*_, more) in CASES.items()
            for sharding in more
        ),
    ],
)
def test_two_ranks_have_the_losses_of_one_its_ledger_and_all_of_its_weights_in_the_end(
    tmp_path: Path, alone: Callable[[str], WorkResult], case: str, sharding: str
) -> None:
    bench = CASES[case][0](tmp_path)
    bench.runtime |= {"processes": 2, "sharding": sharding}
    assert_same_training(alone(case), train(bench.context()))


@pytest.mark.parametrize("kind", ["llama", "mixtral"])
def test_these_bases_have_an_output_layer_of_their_own(kind: str) -> None:
    assert not FAMILIES[kind].config().tie_word_embeddings


@pytest.mark.parametrize(
    ("case", "sharding"), [("lora, one layer", "none"), pytest.param("full, one layer", "fsdp", marks=pytest.mark.long)]
)
def test_two_ranks_with_compiled_layers_train_as_one_does_without(
    tmp_path: Path, alone: Callable[[str], WorkResult], plant: Callable[..., None], case: str, sharding: str
) -> None:
    plant("compiled_without_c")
    bench = CASES[case][0](tmp_path)
    bench.runtime |= {"processes": 2, "sharding": sharding, "compile": True}
    context = bench.context()
    assert_same_training(alone(case), train(context))
    assert all(int((context.scratch / "ranks" / f"{GRAPHS}-{rank}").read_text()) > 0 for rank in range(2))


@pytest.mark.usefixtures("quick")
def test_two_ranks_stop_early_together_where_one_does(tmp_path: Path) -> None:
    early = {"validate_every_steps": 2, "early_stopping": {"patience": 1, "min_delta": 1.0}}
    alone = train(make_bench(tmp_path / "alone", **SETTINGS, **early).context())
    bench = two_ranks(tmp_path / "two", **SETTINGS, **early)
    both = train(bench.context())
    assert alone.facts["stopped_early"] == both.facts["stopped_early"] == 4 < bench.order.steps
    assert_same_training(alone, both)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("variant", "layouts"),
    [
        pytest.param("lora", ("none", "zero3"), marks=pytest.mark.long),
        pytest.param("full", ("fsdp", "zero3")),
        pytest.param("full", ("zero1", "zero2"), marks=pytest.mark.long),
    ],
)
def test_a_run_goes_on_with_two_ranks_in_any_layout_and_then_with_one_and_reads_the_same_data(
    tmp_path: Path, variant: str, layouts: tuple[str, ...]
) -> None:
    settings: dict[str, Any] = {**SETTINGS, "variant": variant, "epochs": 9}
    quiet = train(make_bench(tmp_path / "quiet", **settings).context())
    bench = make_bench(tmp_path / "changing", **settings)
    run_killed_at(bench, 1, 5)
    for attempt, sharding in enumerate(layouts, start=2):
        bench.runtime |= {"processes": 2, "sharding": sharding}
        context = bench.context(attempt)
        reported = at_step(context, 5 * attempt, partial(kill_rank, context, 1), partial(has_saved, context))
        with pytest.raises(Preempted):
            train(context)
        assert reported[0] > 3
    bench.runtime["processes"] = 1
    resumed = train(bench.context(len(layouts) + 2))
    assert resumed.facts["resumed"][-1]["attempt"] == len(layouts) + 1
    assert reported[0] <= resumed.facts["resumed"][-1]["step"] < bench.order.steps
    assert_same_training(quiet, resumed)
    assert check_ledger(content(resumed)["ledger.jsonl"].decode().splitlines(), bench.pack, bench.order) == []


@pytest.mark.parametrize("sharding", ["zero2", "zero3"])
def test_an_update_that_is_no_number_is_refused_by_an_engine_too_and_the_weights_stay(
    tmp_path: Path, plant: Callable[..., None], sharding: str
) -> None:
    plant("nan_in_step_4")
    bench = two_ranks(tmp_path, **SETTINGS, variant="full")
    bench.runtime |= {"sharding": sharding, "checkpoint_every_steps": 1}
    context = bench.context()
    with pytest.raises(Diverged) as caught:
        train(context)
    assert caught.value.where == "step 4"
    (tmp_path / "saved").write_bytes(bench.store.get(f"{bench.spec().attempt_path}/saves/000003/{MODEL}"))
    before, after = load_file(tmp_path / "saved"), load_file(context.scratch / "ranks" / REFUSED)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.usefixtures("quick")
def test_asked_to_stop_the_ranks_agree_on_a_step_and_save_it(tmp_path: Path) -> None:
    bench = two_ranks(tmp_path, **{**SETTINGS, "epochs": 200})
    bench.runtime |= {"checkpoint_every_steps": 10_000, "sharding": "zero3"}
    context = bench.context()
    at_step(context, 3, context._stopping.set)
    with pytest.raises(Preempted):
        train(context)
    (save,) = bench.store.folders(f"{bench.spec().attempt_path}/saves")
    assert 3 <= int(save) < bench.order.steps
    for rank in (0, 1):
        with pytest.raises(ProcessLookupError):
            os.kill(pid_of(context, rank), 0)


def test_four_ranks_of_two_nodes_hold_half_each_and_have_the_gradients_of_one(tmp_path: Path, forks: Forks) -> None:
    """Also if two ranks share each window."""
    base, pack = make_fake_base(tmp_path / "base"), write_pack(tmp_path / "pack", "train", 40)
    assert run_ranks(str(forks.place), 4, 1, str(tmp_path), "tests.workers.training.hsdp_rank:main") == 0

    model = load_base(base, TrainingSettings(precision="fp32"), full=True)
    summed_loss(model, micro_batch(pack, range(8))).backward()
    found = load_file(tmp_path / "gradients.safetensors")
    for name, weight in model.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-4, atol=1e-5)
    numbers = sum(weight.numel() for weight in model.parameters())
    assert json.loads((tmp_path / "held.json").read_text()) == pytest.approx(numbers / 2, rel=0.05)


NODES = {"processes": 2, "nodes": 2, "sharding": "hsdp"}


def kill_on_second_node(context: WorkContext, rank: int) -> None:
    folder = node_folder(context.scratch / "ranks", 1)
    os.kill(int((folder / f"begun-{rank}").read_text()), signal.SIGKILL)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("variant", ["full", pytest.param("lora", marks=pytest.mark.long)])
def test_two_nodes_of_two_train_as_one_process_does_and_go_on_from_a_save_to_the_same_bytes(
    tmp_path: Path, variant: str
) -> None:
    """With clipped updates, and micro-batches in which some ranks have no window."""
    settings: dict[str, Any] = {
        "variant": variant,
        "dropout": 0.0,
        "epochs": 3,
        "documents": 40,
        "global_batch_size": 5,
        "micro_batch_size": 1,
        "max_grad_norm": 0.05,
        "validate_every_steps": 4,
    }
    alone = train(make_bench(tmp_path / "alone", **settings).context())
    found = []
    for name in ("quiet", "killed"):
        bench = make_bench(tmp_path / name, **settings)
        bench.runtime |= {**NODES, "checkpoint_every_steps": 2}
        context = bench.context()
        if name == "killed":
            at_step(context, 3, partial(kill_on_second_node, context, 3), partial(has_saved, context))
            with pytest.raises(Preempted):
                train(context)
            context = bench.context(2)
        found.append(train(context))
    quiet, resumed = found
    assert_same_training(alone, quiet)
    assert min(rows(quiet, "grad_norm")) > settings["max_grad_norm"]
    (begun,) = resumed.facts["resumed"]
    assert begun["attempt"] == 1
    assert 2 <= begun["step"] < bench.order.steps
    assert content(resumed) == content(quiet)
