"""Paused submissions: what the records, the status and Dagster's runs say of them."""

import dagster as dg
import pytest

from ft_assets.control.submissions.pauses import require_not_paused
from ft_assets.control.submissions.plan import RunState, Stage
from ft_assets.control.submissions.status import State, Status, derive
from ft_assets.control.submissions.works import Work
from ft_assets.graph.runs import SubmissionRuns, run_states
from ft_assets.records.pauses import PauseChange, Pauses, read_pauses, record_pause, record_resumption
from ft_assets.records.submissions import Submission
from ft_assets.settings import tags
from ft_resources.attempts import Ending
from ft_resources.errors import SubmissionPaused
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from tests.made import made_submission

SUBMISSION = made_submission()
CALLERS = SUBMISSION.model_copy(update={"driver": "caller", "idempotency_key": "mine"})
PAUSED = PauseChange(kind="paused", actor="bob", reason="the GPUs are needed", at="2026-01-01T00:01:00.000+00:00")
RESUMED = PauseChange(kind="resumed", actor="ann", at="2026-01-01T00:02:00.000+00:00")


def test_the_first_pause_stands_until_it_is_resumed_and_then_there_may_be_another(store: Store) -> None:
    assert read_pauses(store, SUBMISSION) == Pauses()
    assert not record_resumption(store, SUBMISSION, actor="ann")
    first, created = record_pause(store, SUBMISSION, actor="bob", reason="lunch")
    assert created
    assert record_pause(store, SUBMISSION, actor="eve", reason="me too") == (first, False)
    assert read_pauses(store, SUBMISSION).standing == first
    assert record_resumption(store, SUBMISSION, actor="ann")
    assert not record_resumption(store, SUBMISSION, actor="ann")
    assert (read_pauses(store, SUBMISSION).standing, read_pauses(store, SUBMISSION).resumed) == (None, 1)
    assert record_pause(store, SUBMISSION, actor="eve", reason="")[1]
    assert (read_pauses(store, SUBMISSION).changes, read_pauses(store, SUBMISSION).resumed) == (3, 1)


def test_of_two_that_pause_at_once_one_does(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = record_pause(store, SUBMISSION, actor="bob", reason="")
    monkeypatch.setattr("ft_assets.records.pauses.read_pauses", lambda *_: Pauses())
    assert record_pause(store, SUBMISSION, actor="eve", reason="") == (first, False)


@pytest.mark.dagster
@pytest.mark.parametrize("status", [dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE])
def test_runs_of_before_the_pause_do_not_count_once_it_is_resumed(status: dg.DagsterRunStatus) -> None:
    own = {tags.SUBMISSION: SUBMISSION.id}
    with dg.DagsterInstance.ephemeral() as instance:

        def add(stage: Stage, how: dg.DagsterRunStatus, **more: str) -> None:
            instance.add_run(dg.DagsterRun(job_name=str(stage), tags={**own, **more}, status=how))

        add(Stage.PREPARE_RECIPE, dg.DagsterRunStatus.SUCCESS)
        # One that has not ended yet keeps another from being launched beside it.
        add(Stage.PREPARE_DATASET, dg.DagsterRunStatus.CANCELING)
        add(Stage.TRAIN_PAIR, status)
        add(Stage.TRAIN_TRIAL, status, **{tags.TRIAL: "a", tags.RESUMED: "0"})
        before = {Stage.PREPARE_RECIPE: RunState.SUCCEEDED, Stage.PREPARE_DATASET: RunState.ACTIVE}
        assert run_states(instance, SUBMISSION, resumed=1) == SubmissionRuns(stages=before)
        assert set(run_states(instance, SUBMISSION).stages) == {*before, Stage.TRAIN_PAIR}
        add(Stage.TRAIN_PAIR, status, **{tags.RESUMED: "1"})
        assert run_states(instance, SUBMISSION, resumed=1).stages[Stage.TRAIN_PAIR] is not RunState.NONE


def stands(*changes: PauseChange, submission: Submission = SUBMISSION, left: str = "") -> Status:
    """The status of a submission whose training was stopped after step 40."""
    beat = {"phase": "training", "done": 40, "total": 120, "loss": 1.5, "tokens_per_s": 5.0, "eta_s": 9.0}
    at = {"attempt": 1, "claimed_at": 1767225610.0, "progress": beat}
    work = Work(asset="checkpoint", ending=Ending(outcome=Outcome.CANCELLED, error=None), **at)
    pauses = Pauses(changes=len(changes), last=changes[-1] if changes else None)
    return derive(submission, None, [work], now=1767225800.0, pauses=pauses, left=left)


def test_a_paused_submission_says_by_whom_why_and_how_it_goes_on_and_a_resumed_one_is_queued() -> None:
    found = stands(PAUSED)
    assert (found.state, found.detail) == (State.PAUSED, "paused by bob: the GPUs are needed")
    assert found.remedy == f"To continue: ft resume {SUBMISSION.id}"
    assert (found.step, found.steps, found.loss, found.eta_s) == (40, 120, 1.5, None)
    said = stands(PAUSED, submission=CALLERS, left="process 7 is gone")
    assert said.state is State.PAUSED
    assert said.remedy.endswith(f"{SUBMISSION.id}, and then: ft run acme.support.v1 tiny.v1 --key mine")
    assert stands().state is State.CANCELLED
    assert stands(PAUSED, RESUMED).state is State.QUEUED
    left = stands(PAUSED, RESUMED, submission=CALLERS, left="process 7 is gone")
    assert (left.state, left.remedy) == (
        State.STOPPED,
        "To continue: ft run acme.support.v1 tiny.v1 --key mine",
    )


def test_whoever_launches_work_is_told_that_it_is_paused(store: Store) -> None:
    require_not_paused(store, SUBMISSION)
    record_pause(store, SUBMISSION, actor="bob", reason="")
    with pytest.raises(SubmissionPaused, match="paused by bob") as error:
        require_not_paused(store, SUBMISSION)
    assert f"ft resume {SUBMISSION.id}" in error.value.remedy
    record_resumption(store, SUBMISSION, actor="ann")
    require_not_paused(store, SUBMISSION)
