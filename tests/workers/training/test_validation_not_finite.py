"""A validation loss that is not finite is reported, and a run that ends with one passes no gate."""

from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.evals.gates import passed
from ft_assets.workers.evals.verdicts import judge_candidate
from ft_assets.workers.training import training_loop
from ft_assets.workers.training.journal import NOT_FINITE, ends_not_finite
from ft_assets.workers.training.train import train
from ft_resources.store_marker import open_store
from tests.workers.evals.world import World
from tests.workers.training.conftest import Bench, make_bench, step_rows
from tests.workers.training.test_train import run_killed_at


@pytest.fixture
def worsening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A run whose validation loss is finite after its third step, and never again."""
    real = training_loop.validation_loss
    bench = make_bench(tmp_path, documents=24, epochs=9, max_steps=9, validate_every_steps=3)

    def measured(model: Any, *args: Any, **kwargs: Any) -> float | None:
        loss = real(model, *args, **kwargs)
        return loss if lasts[0] else float("inf")

    lasts = [True]
    report = training_loop.TrainingLoop._validate

    def validate(self: Any, step: int) -> None:
        lasts[0] = step == 3
        report(self, step)

    monkeypatch.setattr(training_loop, "validation_loss", measured)
    monkeypatch.setattr(training_loop.TrainingLoop, "_validate", validate)
    return bench


@pytest.mark.training
def test_it_is_an_alert_a_row_and_a_fact_of_the_checkpoint_also_after_a_resume(worsening: Bench) -> None:
    told: list[str] = []
    run_killed_at(worsening, 1, 8)
    context = worsening.context(2)
    progress = context.progress

    def watch(phase: str, *args: Any, **extra: Any) -> None:
        progress(phase, *args, **extra)
        told.extend(extra.get("alerts", ()))

    context.progress = watch  # type: ignore[method-assign]
    result = train(context)
    assert result.facts["resumed"] == [{"attempt": 1, "step": 6}]
    assert [step for step, _ in result.facts["validation_loss"]] == [3]
    assert result.facts[NOT_FINITE] == [6, 9]
    assert ends_not_finite(result.facts)
    (alert,) = (alert for alert in result.facts["alerts"] if alert["kind"] == "validation")
    assert alert["step"] == 6
    assert told[-1].startswith("the validation loss is not a finite number, after step 6.")
    assert [row["step"] for row in step_rows(result) if NOT_FINITE in row] == [6, 9]


@pytest.mark.parametrize(("steps", "refused"), [([6, 9], True), ([6], False), ([], False)])
def test_no_gate_passes_on_a_training_that_ended_so(steps: list[int], refused: bool, tmp_path: Path) -> None:
    world = World(store=open_store(str(tmp_path / "store"), create=True), folder=tmp_path)
    base = world.base()
    facts = {"steps": 9, "validation_loss": [[3, 1.0]], NOT_FINITE: steps}
    checkpoint = world.publish("checkpoint", {"recipe.json": b"{}"}, inputs={"base": base}, facts=facts)
    request = world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint))
    verdicts = judge_candidate(world.artifacts, request.inputs, request.params)
    assert passed(verdicts) is not refused
    assert not refused or {verdict.outcome for verdict in verdicts} == {"fail"}
    assert not refused or "not a finite number" in verdicts[0].reason
