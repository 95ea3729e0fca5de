"""Whole training runs at tiny size: exact after any interruption, and clear about errors."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ft_assets.workers.training import saver, saves
from ft_assets.workers.training.data_ledger import check_ledger
from ft_assets.workers.training.saves import IncompleteSave
from ft_assets.workers.training.state import RunState
from ft_assets.workers.training.train import train
from ft_resources.errors import BadData, Diverged
from ft_resources.worker_context import Preempted, WorkContext, WorkResult
from tests.workers.training.conftest import Bench, content, make_bench, publish, step_rows, write_pack

pytestmark = pytest.mark.training


MACHINE = {"tokens_per_s", "data_wait_s", "host_memory_gib", "mfu", "slowest_rank", "slowest_rank_s", "other_ranks_s"}


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it runs."""


def rows(result: WorkResult, key: str) -> list[tuple[int, float]]:
    return [(row["step"], row[key]) for row in step_rows(result) if key in row]


def figures(result: WorkResult) -> list[dict[str, Any]]:
    """All rows, without what depends on the machine."""
    return [{name: value for name, value in row.items() if name not in MACHINE} for row in step_rows(result)]


def at_step(context: WorkContext, step: int, act: Callable[[], None]) -> None:
    """Let ``act`` happen as soon as optimizer step ``step`` reports."""
    report = context.step

    def watch(**metrics: Any) -> None:
        report(**metrics)
        if metrics["step"] == step and "loss" in metrics:
            act()

    context.step = watch  # type: ignore[method-assign]


def kill() -> None:
    raise Killed


def run_killed_at(bench: Bench, attempt: int, step: int) -> None:
    context = bench.context(attempt)
    at_step(context, step, kill)
    with pytest.raises(Killed):
        train(context)


def run_stopped_at(bench: Bench, attempt: int, step: int) -> None:
    context = bench.context(attempt)
    at_step(context, step, context._stopping.set)
    with pytest.raises(Preempted):
        train(context)


def assert_same(one: WorkResult, other: WorkResult) -> None:
    mine, theirs = content(one), content(other)
    assert mine.keys() == theirs.keys()
    assert [name for name in mine if mine[name] != theirs[name]] == []


def test_a_stop_during_the_last_validation_loses_no_step(tmp_path: Path) -> None:
    quiet = train(make_bench(tmp_path / "quiet").context())
    bench = make_bench(tmp_path / "stopped")
    context = bench.context(1)
    report = context.progress

    def stop(phase: str, *args: Any, **extra: Any) -> None:
        report(phase, *args, **extra)
        if phase == "validating":
            context._stopping.set()

    context.progress = stop  # type: ignore[method-assign]
    with pytest.raises(Preempted):
        train(context)
    resumed = train(bench.context(2))
    assert resumed.facts["resumed"] == [{"attempt": 1, "step": bench.order.steps}]
    assert_same(quiet, resumed)
    assert resumed.facts["validation_loss"] == quiet.facts["validation_loss"]


@pytest.mark.parametrize(("save_s", "step"), [(0.0, 10), (1e9, 9)], ids=["a save is cheap", "training is cheaper"])
def test_what_is_killed_while_its_result_is_written_goes_on_from_the_last_step_where_that_save_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_s: float, step: int
) -> None:
    monkeypatch.setattr(saver.Saver, "predicted_s", lambda self, trainer: save_s)
    bench = make_bench(tmp_path)
    context = bench.context(1)
    report = context.progress

    def killed(phase: str, *args: Any, **extra: Any) -> None:
        report(phase, *args, **extra)
        if phase == "writing":
            raise Killed

    context.progress = killed  # type: ignore[method-assign]
    with pytest.raises(Killed):
        train(context)
    assert train(bench.context(2)).facts["resumed"] == [{"attempt": 1, "step": step}]


def test_where_the_recipe_leaves_it_open_a_run_validates_as_often_as_a_twentieth_of_it_allows(tmp_path: Path) -> None:
    result = train(make_bench(tmp_path, epochs=10).context())
    steps = [step for step, _ in result.facts["validation_loss"]]
    assert len(steps) > 1
    assert steps[-1] == result.facts["steps"]
    assert {later - earlier for earlier, later in pairwise(steps[:-1])} <= {steps[0]}


def test_a_damaged_newest_save_costs_steps_and_not_the_result(tmp_path: Path) -> None:
    quiet = train(make_bench(tmp_path / "quiet").context())
    bench = make_bench(tmp_path / "damaged")
    run_killed_at(bench, 1, 8)
    place = f"{bench.spec().attempt_path}/saves/000006/{saves.OPTIMIZER}"
    damaged = bytearray(bench.store.get(place))
    damaged[-9] ^= 4
    bench.store.put(place, bytes(damaged))
    resumed = train(bench.context(2))
    assert resumed.facts["resumed"] == [{"attempt": 1, "step": 3}]
    assert_same(quiet, resumed)


def test_a_save_without_optimizer_state_is_an_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from ft_assets.workers.training import saver

    whole = saver.write_state

    def forgetful(folder: Path, *parts: Any) -> None:
        whole(folder, *parts)
        (folder / saves.OPTIMIZER).unlink()

    monkeypatch.setattr(saver, "write_state", forgetful)
    run_killed_at(bench, 1, 5)
    with pytest.raises(IncompleteSave, match=saves.OPTIMIZER):
        train(bench.context(2))


def test_optimizer_state_that_lacks_a_tensor_is_an_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from ft_assets.workers.training import saver

    whole = saver.write_state

    def partial(folder: Path, state: RunState) -> None:
        kept = {name: tensor for name, tensor in state.moments.items() if not name.startswith("3.")}
        whole(folder, replace(state, moments=kept))

    monkeypatch.setattr(saver, "write_state", partial)
    run_killed_at(bench, 1, 5)
    with pytest.raises(IncompleteSave, match="optimizer"):
        train(bench.context(2))


def test_the_loss_falls_and_the_ledger_proves_every_example_once_an_epoch(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, epochs=12, dropout=0.0, learning_rate=2e-2)
    result = train(bench.context())
    losses = [loss for _, loss in rows(result, "loss")]
    assert losses[-1] < losses[0] - 0.5
    assert result.facts["train_loss"] < losses[0]
    assert result.facts["validation_loss"][-1][1] < losses[0]
    lines = (result.folder / "ledger.jsonl").read_text().splitlines()
    assert check_ledger(lines, bench.pack, bench.order) == []
    assert check_ledger(lines[:-1], bench.pack, bench.order)


def test_another_micro_batch_changes_neither_loss_nor_ledger(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"dropout": 0.0, "micro_batch_size": 4}
    whole = train(make_bench(tmp_path / "whole", **settings).context())
    bench = make_bench(tmp_path / "split", **settings)
    bench.runtime["micro_batch_divisor"] = 4
    split = train(bench.context())
    assert content(whole)["ledger.jsonl"] == content(split)["ledger.jsonl"]
    assert content(whole)["recipe.json"] == content(split)["recipe.json"]
    for one, other in zip(rows(whole, "loss"), rows(split, "loss"), strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    mine, theirs = (load_file(result.folder / "final" / "adapter_model.safetensors") for result in (whole, split))
    assert all(torch.allclose(mine[name], theirs[name], atol=1e-4) for name in mine)


def test_the_whole_model_is_in_training_mode_also_below_the_adapters(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ft_assets.workers.training.methods import sft

    modes = set()
    real = sft.summed_loss

    def watched(model: Any, batch: Any) -> torch.Tensor:
        modes.update((torch.is_grad_enabled(), module.training) for module in model.modules())
        return real(model, batch)

    monkeypatch.setattr(sft, "summed_loss", watched)
    train(bench.context())
    assert modes == {(True, True), (False, False)}


def test_a_run_may_go_on_with_another_micro_batch(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"dropout": 0.0, "micro_batch_size": 4}
    quiet = train(make_bench(tmp_path / "quiet", **settings).context())
    bench = make_bench(tmp_path / "resumed", **settings)
    run_killed_at(bench, 1, 5)
    bench.runtime["micro_batch_divisor"] = 2
    resumed = train(bench.context(2))
    assert content(quiet)["ledger.jsonl"] == content(resumed)["ledger.jsonl"]
    for one, other in zip(rows(quiet, "loss"), rows(resumed, "loss"), strict=True):
        assert one == pytest.approx(other, rel=1e-4)


def test_divergence_names_the_step_and_its_examples_before_the_weights_are_spoilt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ft_assets.workers.training.methods import sft

    calls = 0
    real = sft.summed_loss

    def spoilt(model: Any, batch: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return real(model, batch) * (float("nan") if calls == 7 else 1.0)

    monkeypatch.setattr(sft, "summed_loss", spoilt)
    with pytest.raises(Diverged) as caught:
        train(bench.context())
    # Two micro-batches a step: the seventh belongs to step 4.
    assert caught.value.where == "step 4"
    step = list(bench.order.read())[3]
    first = bench.pack.example_id(int(bench.pack.read(step.windows[:1]).examples[0]))
    assert first in caught.value.what
    assert "learning_rate" in caught.value.remedy


def test_a_pack_without_learned_tokens_is_bad_data(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    for split in ("train", "validation"):
        write_pack(tmp_path / "masked", split, 9, taught=False)
    bench.inputs["pack"] = publish(bench.store, tmp_path / "masked", "token_pack", "acme")
    with pytest.raises(BadData):
        train(bench.context())


def test_an_adapter_says_which_base_it_belongs_to_and_holds_no_local_path(tmp_path: Path) -> None:
    result = train(make_bench(tmp_path, max_steps=1).context())
    config = json.loads((result.folder / "final" / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["revision"]) == ("hub:acme/tiny", "abc123")
    assert config["target_modules"] == sorted(config["target_modules"])
    assert sorted(path.name for path in (result.folder / "final").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    for name, data in content(result).items():
        assert str(tmp_path).encode() not in data, name


def test_a_full_model_loads_and_holds_no_local_path(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    result = train(make_bench(tmp_path, variant="full", max_steps=1).context())
    assert AutoModelForCausalLM.from_pretrained(result.folder / "final").config.use_cache
    for name, data in content(result).items():
        assert str(tmp_path).encode() not in data, name
    assert b"ft_documents" not in (result.folder / "final" / "config.json").read_bytes()


@pytest.mark.usefixtures("pictures")
def test_steps_report_everything_a_person_follows(bench: Bench) -> None:
    result = train(bench.context())
    *steps, last = step_rows(result)
    assert [row["step"] for row in steps] == list(range(1, bench.order.steps + 1))
    wanted = {"step", "loss", "grad_norm", "learning_rate", "tokens", "tokens_per_s", "data_wait_s", "epoch"}
    assert all(row.keys() == wanted | {"mfu", "host_memory_gib"} for row in steps)
    assert last.keys() == {"step", "validation_loss", "validation_perplexity"}
    assert result.facts["tokens"] == bench.pack.index.tokens * 2
    assert (result.folder / "report" / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_the_log_has_losses_of_training_and_validation_with_rate_and_time_left(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    train(bench.context(1))
    said = capsys.readouterr().out
    assert re.search(r"^training 1/\d+, loss \d+\.\d{3}, [\d,]+ tokens/s, .+ left$", said, re.MULTILINE)
    assert re.search(r"^validating (\d+)/\1, validation loss \d+\.\d{3}$", said, re.MULTILINE)


def test_a_long_training_does_not_fill_its_log_with_losses(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    context = bench.context(1)
    for step in range(1, 10_001):
        context.progress("training", done=step, total=10_000, loss=1.0)
    assert len(capsys.readouterr().out.splitlines()) == 101
