"""The state of a submission follows from the records alone, and from why its work waits on a cluster."""

from datetime import datetime
from typing import Any

import pytest

from ft_assets.control.submissions.status import STATE_OF_WORK, State, Status, derive
from ft_assets.control.submissions.waiting import explained
from ft_assets.control.submissions.works import Work
from ft_assets.records.submissions import SubmissionOutcome, SubmissionStatus
from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt, Ending
from ft_resources.errors import HeldForReview
from ft_resources.outcomes import POLICIES, Outcome
from ft_resources.store import Store
from ft_resources.waiting import Waiting
from tests.made import made_submission
from tests.resources.kubernetes.specs import spec_of

ASKED = datetime.fromisoformat("2026-11-01T12:00:00+00:00").timestamp()
SUBMISSION = made_submission(created_at="2026-11-01T12:00:00.000+00:00", idempotency_key="k")


def work(asset: str, **fields: Any) -> Work:
    return Work(asset=asset, address=Address(tenant="acme", asset=asset, fingerprint="ff"), **fields)


def running(asset: str, *, seconds_ago: float = 0.5, **progress: Any) -> Work:
    beat = {"phase": "working", "done": 0, "total": 0, "at": ASKED + 100 - seconds_ago, **progress}
    return work(asset, attempt=1, claimed_at=ASKED + 5, progress=beat)


def done(asset: str, *, before: bool = False) -> Work:
    return work(asset, done=True, attempt=1, claimed_at=ASKED - 50 if before else ASKED + 1)


def ended(asset: str, outcome: Outcome, *, claimed_at: float = ASKED + 5, **error: str) -> Work:
    return work(asset, attempt=1, claimed_at=claimed_at, ending=Ending(outcome=outcome, error=error or None))


def status(*works: Work, outcome: SubmissionOutcome | None = None) -> Status:
    return derive(SUBMISSION, outcome, works, now=ASKED + 100)


@pytest.mark.parametrize("asset", STATE_OF_WORK)
def test_running_work_decides_the_state(asset: str) -> None:
    assert status(running(asset)).state is STATE_OF_WORK[asset]


def test_unknown_work_counts_as_preparing_and_a_training_that_changes_its_gpus_still_trains() -> None:
    assert STATE_OF_WORK["reference_logps"] is State.PREPARING
    for known in ((), (done("dataset"),)):
        assert status(*known, running("thought_transfer")).state is State.PREPARING
    assert status(done("dataset"), work("thought_transfer")).state is State.PREPARING
    again = ended("thought_transfer", Outcome.PLATFORM_ERROR, what="the disk hiccuped")
    assert status(done("dataset"), again).detail == "retrying after: the disk hiccuped"
    found = status(done("token_pack"), ended("checkpoint", Outcome.RESIZED))
    assert (found.state, found.detail) == (State.TRAINING, POLICIES[Outcome.RESIZED].message)


def test_training_shows_step_loss_rate_and_time_left_and_counts_nothing_where_only_the_total_is_known() -> None:
    beat = {"phase": "training", "done": 40, "total": 120, "loss": 1.25, "tokens_per_s": 5400.0, "eta_s": 12.0}
    found = status(done("dataset"), done("base_model"), running("checkpoint", **beat))
    assert (found.state, found.asset, found.phase) == (State.TRAINING, "checkpoint", "training")
    assert (found.step, found.steps, found.loss, found.tokens_per_s, found.eta_s) == (40, 120, 1.25, 5400.0, 12.0)
    progress = {"phase": "training", "total": 10, "at": ASKED + 100}
    found = status(work("checkpoint", attempt=1, claimed_at=ASKED + 5, progress=progress))
    assert (found.step, found.steps) == (None, None)


def test_nothing_begun_is_queued_and_between_two_pieces_of_work_the_next_one_decides() -> None:
    assert status(work("dataset"), work("base_model")).state is State.QUEUED
    assert status(done("dataset", before=True), work("base_model")).state is State.QUEUED
    assert status(done("dataset"), done("token_pack"), work("checkpoint")).state is State.TRAINING


@pytest.mark.parametrize("before", [False, True])
def test_what_has_its_adapter_and_waits_for_exports_is_not_queued(before: bool) -> None:
    """It was queued again for as long as the export took, and alerts and notices said that nothing was launched."""
    works = [done(asset, before=before) for asset in STATE_OF_WORK]
    assert status(*works).state is State.EVALUATING


def test_an_export_that_is_being_made_is_shown_and_one_that_failed_changes_nothing() -> None:
    works = [done(asset) for asset in STATE_OF_WORK]

    def exporting(*exports: Work) -> Status:
        return derive(SUBMISSION, None, works, now=ASKED + 100, exports=exports)

    found = exporting(done("merged_model"), running("quantized_model", phase="quantising"))
    assert (found.state, found.asset, found.phase) == (State.EVALUATING, "quantized_model", "quantising")
    assert exporting(running("merged_model", seconds_ago=31)).state is State.PREEMPTED
    failed = ended("quantized_model", Outcome.USER_ERROR, what="no llama.cpp")
    assert exporting(done("merged_model"), failed) == status(*works)


def test_a_silent_worker_is_preempted_and_a_fresh_sign_of_life_is_not() -> None:
    assert status(running("checkpoint", seconds_ago=29)).state is State.TRAINING
    silent = status(running("checkpoint", seconds_ago=31))
    assert silent.state is State.PREEMPTED
    assert "no heartbeat for 31 s" in silent.detail


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.PREEMPTED, State.PREEMPTED),
        (Outcome.CANCELLED, State.CANCELLED),
        (Outcome.DIVERGED, State.FAILED),
        (Outcome.BAD_DATA, State.FAILED),
        (Outcome.USER_ERROR, State.FAILED),
        (Outcome.OUT_OF_MEMORY, State.TRAINING),
        (Outcome.PLATFORM_ERROR, State.TRAINING),
    ],
)
def test_the_last_attempts_ending_decides_while_nothing_runs(outcome: Outcome, state: State) -> None:
    found = status(done("dataset"), ended("checkpoint", outcome, what="the reason"))
    assert found.state is state
    assert found.detail


def test_a_held_dataset_decides_until_the_submission_has_ended() -> None:
    works = (done("dataset"), running("baseline_report"), work("token_pack"))
    held = HeldForReview("acme.support.v1", ["3 rows are like tests."])
    found = derive(SUBMISSION, None, works, now=ASKED + 100, held=held)
    assert (found.state, found.detail, found.remedy) == (State.HELD, held.what, held.remedy)
    ended_by = SubmissionOutcome(status=SubmissionStatus.CANCELLED, reason="enough", at="2026-11-01T12:00:09+00:00")
    assert derive(SUBMISSION, ended_by, works, now=ASKED + 100, held=held).state is State.CANCELLED


def test_a_submission_whose_process_is_gone_is_stopped_once_no_worker_goes_on() -> None:
    """After a kill -9 of ft run it was `preparing` for ever."""
    asked = SUBMISSION.model_copy(update={"driver": "caller", "gates": ("exact_match > 0.6",)})

    def left(*works: Work) -> Status:
        return derive(asked, None, works, now=ASKED + 100, left="process 7 is gone")

    for works in ([work("dataset")], [done("dataset"), work("base_model")], [running("dataset", seconds_ago=99)]):
        found = left(*works)
        assert (found.state, found.detail) == (State.STOPPED, "process 7 is gone")
        assert found.remedy == "To continue: ft run acme.support.v1 tiny.v1 --gate 'exact_match > 0.6' --key k"
    working = left(done("dataset"), running("checkpoint"))
    assert (working.state, working.detail) == (State.TRAINING, "process 7 is gone; its worker continues until it ends")
    assert working.remedy == found.remedy
    assert left(ended("checkpoint", Outcome.DIVERGED)).state is State.FAILED


def test_an_ending_from_before_this_was_asked_for_is_not_this_ones_and_a_refusal_of_the_exporter_a_rejection() -> None:
    assert status(ended("checkpoint", Outcome.DIVERGED, claimed_at=ASKED - 1)).state is State.QUEUED
    refused = ended("adapter", Outcome.USER_ERROR, type="GateRejected", what="task_gain: fail")
    assert status(done("eval_report"), refused).state is State.REJECTED


@pytest.mark.parametrize("recorded", SubmissionStatus)
def test_a_recorded_outcome_is_the_last_word(recorded: SubmissionStatus) -> None:
    outcome = SubmissionOutcome(status=recorded, adapter="acme/adapter/aa", reason="why", at="now")
    found = status(running("checkpoint"), outcome=outcome)
    assert (found.state, found.adapter, found.detail) == (State(recorded), "acme/adapter/aa", "why")


class Says:
    def __init__(self, reason: str) -> None:
        self.reason = reason

    def why_waiting(self, attempt: Attempt) -> Waiting:
        return Waiting(reason=self.reason, what="the quota of its queue is in use", remedy="Raise it.")  # type: ignore[arg-type]


def told(tmp_path, reason: str, **facts: object) -> Status:
    status = Status(
        submission="1",
        dataset="d",
        recipe="r",
        actor="a",
        created_at="",
        state=State.PREEMPTED,
        detail="no heartbeat",
    )
    work = Work(asset="checkpoint", address=spec_of().address, attempt=1, **facts)  # type: ignore[arg-type]
    return explained(Store(str(tmp_path / "s")), status, (work,), Says(reason))


def test_a_queued_job_is_queued_and_not_preempted_and_work_that_reports_or_runs_does_not_wait(tmp_path) -> None:
    found = told(tmp_path, "quota")
    assert (found.state, found.detail) == (State.QUEUED, "waits: the quota of its queue is in use. Raise it.")
    assert told(tmp_path, "running").state is State.PREEMPTED
    assert told(tmp_path, "quota", progress={"phase": "training"}).state is State.PREEMPTED
