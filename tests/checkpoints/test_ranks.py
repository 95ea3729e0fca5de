"""Two ranks are one training: equal losses, the same data, and one fate."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ft_assets.checkpoints.distributed import launch
from ft_assets.checkpoints.distributed.layout import Layout
from ft_assets.checkpoints.ledger import check_ledger
from ft_assets.checkpoints.train import train
from ft_resources.worker_context import Preempted, WorkContext, WorkResult
from tests.checkpoints import rank_forks
from tests.checkpoints.conftest import Bench, content, make_bench
from tests.checkpoints.test_train import run_killed_at

# Five windows a step, one at a time: each step ends with a micro-batch of which one rank has nothing.
SETTINGS: dict[str, Any] = {"dropout": 0.0, "epochs": 2, "global_batch_size": 5, "micro_batch_size": 1}


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with rank_forks.forking_ranks(tmp_path_factory.mktemp("forks")) as place:
        yield place


@pytest.fixture
def quick(forks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks are forked and not started by torchrun."""

    def command(layout: Layout, folder: Path) -> list[str]:
        return [sys.executable, rank_forks.__file__, str(forks), str(layout.world), str(folder)]

    monkeypatch.setattr(launch, "_command", command)


def two_ranks(folder: Path, **settings: Any) -> Bench:
    bench = make_bench(folder, **settings)
    bench.runtime["processes"] = 2
    return bench


def rows(result: WorkResult, key: str) -> list[float]:
    lines = (result.folder / "report" / "steps.jsonl").read_text().splitlines()
    return [row[key] for row in map(json.loads, lines) if key in row]


def assert_same_training(one: WorkResult, other: WorkResult) -> None:
    """The same data, and equal figures and weights but for rounding."""
    assert content(one)["ledger.jsonl"] == content(other)["ledger.jsonl"]
    for key in ("loss", "validation_loss", "grad_norm", "tokens", "learning_rate"):
        assert rows(one, key) == pytest.approx(rows(other, key), rel=1e-4), key
    (mine, theirs) = (load_file(next((each.folder / "final").glob("*.safetensors"))) for each in (one, other))
    assert mine.keys() == theirs.keys()
    assert all(torch.allclose(mine[name], theirs[name], atol=1e-4) for name in mine)


def at_step(context: WorkContext, step: int, act: Any) -> None:
    """Let ``act`` happen once optimizer step ``step`` was reported."""
    report, acted = context.step, []

    def watch(**metrics: Any) -> None:
        report(**metrics)
        if metrics["step"] >= step and not acted:
            acted.append(act())

    context.step = watch  # type: ignore[method-assign]


def pid_of(context: WorkContext, rank: int) -> int:
    return int((context.scratch / "ranks" / f"begun-{rank}").read_text())


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("variant", ["lora", "full"])
def test_two_ranks_have_the_losses_of_one_and_its_ledger(tmp_path: Path, variant: str) -> None:
    settings = {**SETTINGS, "variant": variant, "validate_every_steps": 2}
    alone = train(make_bench(tmp_path / "alone", **settings).context())
    for sharding in ("none", "fsdp"):
        bench = two_ranks(tmp_path / sharding, **settings)
        bench.runtime["sharding"] = sharding
        assert_same_training(alone, train(bench.context()))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("variant", "sharding"), [("lora", "none"), ("full", "fsdp")])
def test_a_run_goes_on_with_two_ranks_and_then_with_one_and_reads_the_same_data(
    tmp_path: Path, variant: str, sharding: str
) -> None:
    settings: dict[str, Any] = {**SETTINGS, "variant": variant, "epochs": 12}
    quiet = train(make_bench(tmp_path / "quiet", **settings).context())
    bench = make_bench(tmp_path / "changing", **settings)
    run_killed_at(bench, 1, 5)
    bench.runtime |= {"processes": 2, "sharding": sharding}
    context = bench.context(2)
    at_step(context, 9, lambda: os.kill(pid_of(context, 1), signal.SIGKILL))
    began = time.monotonic()
    with pytest.raises(Preempted):
        train(context)
    assert time.monotonic() - began < 60
    bench.runtime["processes"] = 1
    resumed = train(bench.context(3))
    assert resumed.facts["resumed"][-1]["attempt"] == 2
    assert 3 < resumed.facts["resumed"][-1]["step"] < bench.order.steps
    assert_same_training(quiet, resumed)
    assert check_ledger(content(resumed)["ledger.jsonl"].decode().splitlines(), bench.pack, bench.order) == []


@pytest.mark.usefixtures("quick")
def test_asked_to_stop_the_ranks_agree_on_a_step_and_save_it(tmp_path: Path) -> None:
    bench = two_ranks(tmp_path, **{**SETTINGS, "epochs": 200})
    bench.runtime["checkpoint_every_steps"] = 10_000
    context = bench.context()
    at_step(context, 3, context._stopping.set)
    with pytest.raises(Preempted):
        train(context)
    (save,) = bench.store.folders(f"{bench.spec().attempt_path}/saves")
    assert 3 <= int(save) < bench.order.steps
    for rank in (0, 1):
        with pytest.raises(ProcessLookupError):
            os.kill(pid_of(context, rank), 0)
