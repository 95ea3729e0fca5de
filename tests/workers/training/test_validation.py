"""Early stopping, and what a loss that is no number means: when a run ends and with what result."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ft_assets.settings.recipe.training import EarlyStoppingSettings, TrainingSettings
from ft_assets.workers.evals.gates import passed
from ft_assets.workers.evals.verdicts import judge_candidate
from ft_assets.workers.training import train as work
from ft_assets.workers.training import training_loop
from ft_assets.workers.training.attempt_plan import make_plan
from ft_assets.workers.training.data_ledger import prove
from ft_assets.workers.training.early_stopping import stopping_step
from ft_assets.workers.training.journal import NOT_FINITE, ends_not_finite
from ft_assets.workers.training.saver import Saver
from ft_assets.workers.training.train import train
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData
from ft_resources.store_marker import open_store
from tests.made import leave
from tests.workers.evals.world import World
from tests.workers.training.conftest import Bench, make_bench, step_rows, write_pack
from tests.workers.training.test_resuming import greedy
from tests.workers.training.test_train import Killed, assert_same, rows, run_killed_at

PATIENT = {"patience": 2}
# The first steps are so long that validation rises at once.
WILD: dict[str, Any] = {"learning_rate": 0.1, "validate_every_steps": 2}


def stopped(losses: list[float], last: int = 100, **settings: Any) -> int | None:
    """The stopping step of a run whose validations, after every ten steps, had these losses."""
    found: list[dict[str, Any]] = [{"step": 1, "loss": 9.0}]
    for number, loss in enumerate(losses, start=1):
        found.append({"step": 10 * number, **({"validation_loss": loss} if math.isfinite(loss) else {NOT_FINITE: 1})})
    return stopping_step(found, EarlyStoppingSettings(**settings), last)


def test_a_run_stops_after_so_many_validations_in_a_row_without_a_lower_loss() -> None:
    assert stopped([3.0, 2.0, 2.1, 2.2], patience=2) == 40
    assert stopped([3.0, 2.0, 2.1, 1.9, 2.0], patience=2) is None
    assert stopped([3.0, 2.0, 2.0, 2.0, 1.0], patience=2) == 40
    assert stopped([3.0, 3.0], patience=1) == 20
    assert stopped([3.0, math.nan, math.nan], patience=2) == 30
    assert stopped([], patience=1) is None


def test_only_a_loss_that_is_lower_by_min_delta_counts() -> None:
    losses = [3.0, 2.95, 2.92, 2.89, 2.7]
    assert stopped(losses, patience=2) is None
    assert stopped(losses, patience=2, min_delta=0.1) == 30
    # Each is compared with the loss that counted last, so a slow fall counts in the end.
    assert stopped(losses, patience=3, min_delta=0.1) is None


def test_a_run_that_would_stop_with_its_last_step_ends_as_planned() -> None:
    assert stopped([3.0, 3.1, 3.2], last=30, patience=2) is None
    assert stopping_step([{"step": 10, "validation_loss": 1.0}], None, 30) is None


def test_a_recipe_without_it_is_the_recipe_of_before() -> None:
    assert "early_stopping" not in TrainingSettings().model_dump(mode="json")


def plan_of(bench: Bench, **packs: Any) -> Any:
    return make_plan(bench.params, bench.runtime, bench.pack, packs.get("validation", bench.pack))


def test_there_are_ten_validations_where_the_recipe_leaves_that_open(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, early_stopping=PATIENT)
    assert plan_of(bench).cadence.validate_steps == -(-bench.order.steps // 10)


def test_it_needs_validation_rows(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, early_stopping=PATIENT)
    nothing = write_pack(tmp_path / "nothing", "validation", 3, taught=False)
    with pytest.raises(BadData, match="there are no validation rows to measure it on"):
        plan_of(bench, validation=nothing)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run that stopped early, and its bench."""
    bench = greedy(tmp_path_factory.mktemp("quiet"), **WILD, early_stopping=PATIENT)
    return SimpleNamespace(bench=bench, result=train(bench.context()))


@pytest.mark.training
def test_a_run_that_stops_early_is_a_finished_training_with_its_schedule_of_the_full_length(
    quiet: Any, tmp_path: Path
) -> None:
    facts, planned = quiet.result.facts, quiet.bench.order.steps
    step = facts["stopped_early"]
    assert step == facts["steps"] == facts["validation_loss"][-1][0] < planned
    whole = train(greedy(tmp_path / "whole", **WILD).context())
    assert "stopped_early" not in whole.facts
    assert whole.facts["steps"] == planned
    for key in ("loss", "learning_rate", "validation_loss"):
        assert rows(quiet.result, key) == [row for row in rows(whole, key) if row[0] <= step]
    kept = dict(facts["kept"])
    assert step not in kept
    assert min(dict(facts["validation_loss"]).values()) in kept.values()


@pytest.mark.training
def test_its_ledger_is_proved_up_to_where_it_stopped(quiet: Any, tmp_path: Path) -> None:
    bench = quiet.bench
    made = leave(Artifacts(bench.store), bench.request, quiet.result.folder, facts=quiet.result.facts)
    proof = prove(Artifacts(bench.store), made, tmp_path)
    assert proof.findings == []
    assert proof.steps == quiet.result.facts["stopped_early"]
    assert proof.stopped_early
    assert "max_steps" not in proof.summary


@pytest.mark.training
def test_a_run_that_was_killed_stops_where_a_quiet_one_does_with_the_same_bytes(
    quiet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, last = greedy(tmp_path / "killed", **WILD, early_stopping=PATIENT), quiet.result.facts["stopped_early"]
    run_killed_at(bench, 1, 4)
    run_killed_at(bench, 2, last)
    # This one saves after its last step, and dies while it writes its result.
    bench.runtime["checkpoint_every_steps"] = 1
    with monkeypatch.context() as patched:
        patched.setattr(work, "_result", dies)
        patched.setattr(Saver, "pays", lambda *_: True)
        with pytest.raises(Killed):
            train(bench.context(3))
    resumed = train(bench.context(4))
    assert resumed.facts["resumed"][-1] == {"attempt": 3, "step": last}
    assert resumed.facts["stopped_early"] == last
    assert resumed.facts["kept"] == quiet.result.facts["kept"]
    assert_same(quiet.result, resumed)


def dies(*_: Any) -> None:
    raise Killed


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
