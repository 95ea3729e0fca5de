"""The status of a submission, from the store alone: its records, and its workers' last reports."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from ft_assets.control.submissions.failures import own_words, remedy_of
from ft_assets.control.submissions.pauses import go_on, remedy_of_pause, said_of
from ft_assets.records.pauses import PauseChange, Pauses, read_pauses
from ft_assets.records.submissions import (
    Submission,
    SubmissionOutcome,
    SubmissionStatus,
    all_submissions,
    find_caller,
    find_outcome,
    find_submission,
)
from ft_assets.settings.ungated import NOT_JUDGED
from ft_assets.workers.training.early_stopping import STOPPED_EARLY
from ft_resources.attempts import Attempt
from ft_resources.errors import HeldForReview, UserError
from ft_resources.execution import LEASE_S
from ft_resources.first_step import Wait, waits_of
from ft_resources.outcomes import POLICIES, Outcome
from ft_resources.run_processes import gone
from ft_resources.store import Store

if TYPE_CHECKING:
    from ft_assets.control.submissions.works import Work
    from ft_resources.attempts import Ending


class State(StrEnum):
    """State of a submission; the last five are final."""

    QUEUED = "queued"
    PREPARING = "preparing"
    TRAINING = "training"
    EVALUATING = "evaluating"
    HELD = "held"
    PREEMPTED = "preempted"
    # The process that launched its runs is gone; nothing happens until it is asked for again.
    STOPPED = "stopped"
    # A person paused it; nothing is launched until a person resumes it.
    PAUSED = "paused"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNGATED = "ungated"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL = frozenset(State(status) for status in SubmissionStatus)
# The work of a submission, in order, and the state it counts as.
STATE_OF_WORK: dict[str, State] = {
    "dataset": State.PREPARING,
    "base_model": State.PREPARING,
    "baseline_report": State.PREPARING,
    "token_pack": State.PREPARING,
    "reference_logps": State.PREPARING,
    "checkpoint": State.TRAINING,
    "eval_report": State.EVALUATING,
    "adapter": State.EVALUATING,
}


def state_of_work(asset: str) -> State:
    """The state for work on ``asset``; an asset that only a newer version knows counts as preparing."""
    return STATE_OF_WORK.get(asset, State.PREPARING)


@dataclass(frozen=True, kw_only=True)
class Status:
    """Summary of a submission for people; numbers are None if there are none (yet).

    ``step`` and ``steps`` count what the present phase counts (optimizer steps while training), ``eta_s`` is the
    worker's own estimate of the seconds left of it, ``stopped_early`` the last step of a training that ended sooner
    than planned (lists leave it out of what has ended), ``start`` what its training's first step waited for (not in
    lists), ``alerts`` are sentences of a running training, ``suggestions`` of what to try after a rejection.
    ``detail``, ``where`` and ``remedy`` say why it is in its state and what to do, ``words`` are a failed worker's own
    words, which may quote data.
    """

    submission: str
    dataset: str
    recipe: str
    actor: str
    created_at: str
    state: State
    asset: str = ""
    phase: str = ""
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    tokens_per_s: float | None = None
    eta_s: float | None = None
    stopped_early: int | None = None
    start: tuple[Wait, ...] = ()
    alerts: tuple[str, ...] = ()
    adapter: str = ""
    detail: str = ""
    where: str = ""
    remedy: str = ""
    words: str = ""
    suggestions: tuple[str, ...] = ()


def derive(
    submission: Submission,
    outcome: SubmissionOutcome | None,
    works: Sequence["Work"],
    *,
    now: float,
    held: HeldForReview | None = None,
    left: str = "",
    pauses: Pauses | None = None,
    exports: Sequence["Work"] = (),
) -> Status:
    """The status that follows from the records; ``now`` in seconds since the epoch. Pure.

    ``held`` is why a person must review the dataset first, and what to do. ``left`` says that the process which
    launched its runs is gone. ``pauses`` are who paused and resumed it. ``exports`` is the work of what its recipe
    exports.
    """
    pauses = pauses or Pauses()
    if outcome is not None:
        return _of_outcome(submission, outcome)
    if pauses.standing is not None:
        return _of_pause(submission, pauses.standing, works)
    if held:
        return replace(_status(submission, State.HELD, detail=held.what), where=held.where, remedy=held.remedy)
    found = _of_works(submission, works, exports, pauses.resumed_at or submission.created_at, now)
    if not left or found.state in FINAL:
        return found
    remedy = f"To continue: {go_on(submission)}"
    if found.state is not State.PREEMPTED and any(work.running for work in (*works, *exports)):
        return replace(found, detail=f"{left}; its worker continues until it ends", remedy=remedy)
    return replace(found, state=State.STOPPED, detail=left, remedy=remedy)


def _of_pause(submission: Submission, pause: PauseChange, works: Sequence["Work"]) -> Status:
    """The status of a paused submission, with how far its last piece of work got."""
    at = next((work for work in reversed(works) if work.attempt and not work.done), None)
    found = _status(submission, State.PAUSED, at, detail=said_of(pause))
    return replace(found, tokens_per_s=None, eta_s=None, remedy=remedy_of_pause(submission))


def _of_works(
    submission: Submission, works: Sequence["Work"], exports: Sequence["Work"], since: str, now: float
) -> Status:
    """The status of an open submission by its work ``since`` it was asked for, or resumed."""
    asked = datetime.fromisoformat(since).timestamp()
    open_works = [work for work in works if not work.done and not work.lost]
    for work in reversed(open_works):
        if work.running:
            return _of_running(submission, work, now)
    for work in reversed(open_works):
        # An attempt that ended before belongs to an earlier submission, or was stopped by a pause.
        if work.ending is not None and work.claimed_at >= asked:
            return _of_ended(submission, work, work.ending)
    begun = any(work.claimed_at >= asked for work in works)
    if begun and open_works:
        return _status(submission, state_of_work(open_works[0].asset), open_works[0], detail="next")
    if any(work.asset == "adapter" and work.done for work in works):
        # However an export ends, the adapter is accepted; only exports in progress matter.
        left = "the adapter is complete; its exports and final record are pending"
        at = next((work for work in exports if work.running), None)
        if at is None:
            return _status(submission, State.EVALUATING, detail=left)
        found = _of_running(submission, at, now)
        return found if found.state is State.PREEMPTED else replace(found, state=State.EVALUATING)
    return _status(submission, State.QUEUED)


def _of_outcome(submission: Submission, outcome: SubmissionOutcome) -> Status:
    detail = outcome.reason or (NOT_JUDGED if outcome.status is SubmissionStatus.UNGATED else "")
    ended = _status(submission, State(outcome.status), adapter=outcome.adapter, detail=detail)
    where = outcome.failure.where if outcome.failure else ""
    return replace(ended, suggestions=outcome.suggestions, where=where, remedy=remedy_of(submission, outcome))


def _of_running(submission: Submission, work: "Work", now: float) -> Status:
    silent_s = now - float(work.progress.get("at") or work.claimed_at)
    if silent_s > LEASE_S:
        detail = f"no heartbeat for {silent_s:.0f} s; it resumes when its run is retried or submitted again"
        return _status(submission, State.PREEMPTED, work, detail=detail)
    return _status(submission, state_of_work(work.asset), work)


def _of_ended(submission: Submission, work: "Work", ending: "Ending") -> Status:
    error = ending.error or {}
    detail = error.get("what", "")
    if error.get("type") == "GateRejected":
        return _status(submission, State.REJECTED, work, detail=detail)
    if ending.outcome in (Outcome.PREEMPTED, Outcome.CANCELLED):
        return _status(submission, State(ending.outcome), work, detail=POLICIES[ending.outcome].message)
    if ending.outcome is Outcome.RESIZED:
        return _status(submission, state_of_work(work.asset), work, detail=POLICIES[ending.outcome].message)
    if POLICIES[ending.outcome].retries:
        return _status(submission, state_of_work(work.asset), work, detail=f"retrying after: {detail}")
    failed = _status(submission, State.FAILED, work, detail=detail)
    return replace(failed, where=error.get("where", ""), remedy=error.get("remedy", ""))


def _status(
    submission: Submission, state: State, work: "Work | None" = None, *, adapter: str = "", detail: str = ""
) -> Status:
    progress = work.progress if work else {}
    counts = bool(progress.get("total")) and "done" in progress
    return Status(
        submission=submission.id,
        dataset=submission.dataset,
        recipe=submission.recipe,
        actor=submission.actor,
        created_at=submission.created_at,
        state=state,
        asset=work.asset if work else "",
        phase=str(progress.get("phase", "")),
        step=progress["done"] if counts else None,
        steps=progress["total"] if counts else None,
        loss=progress.get("loss"),
        tokens_per_s=progress.get("tokens_per_s"),
        eta_s=progress.get("eta_s"),
        alerts=tuple(progress.get("alerts", ())) if work and work.running else (),
        adapter=adapter,
        detail=detail,
    )


def status_of(store: Store, submission: Submission) -> Status:
    """The submission's current status. An unreadable record becomes part of the status, not an error."""
    if outcome := find_outcome(store, submission):
        words = own_words(store, outcome.failure) if outcome.failure else ""
        return replace(derive(submission, outcome, (), now=time.time()), words=words)
    # Importing the key resolution takes a quarter of the start of `ft status`; ended submissions do not need it.
    from ft_assets.control.submissions.works import export_works, held_for_review, read_works

    try:
        works, held = read_works(store, submission), held_for_review(store, submission)
        exports, pauses = export_works(store, submission), read_pauses(store, submission)
    except UserError as error:
        return _status(submission, State.FAILED, detail=str(error))
    left = gone(find_caller(store, submission)) if submission.driver == "caller" else ""
    found = derive(submission, None, works, now=time.time(), held=held, left=left, pauses=pauses, exports=exports)
    return replace(found, stopped_early=stopped_early(works))


def stopped_early(works: "Sequence[Work]") -> int | None:
    """The last step of a submission's training, if it stopped early."""
    training = (work for work in works if work.asset == "checkpoint" and not work.trial)
    return next((work.facts.get(STOPPED_EARLY) for work in training), None)


def start_of(store: Store, submission: Submission, works: "Sequence[Work]") -> tuple[Wait, ...]:
    """What the first step of the submission's training waited for, in its last attempt; nothing where it was not
    trained for this submission."""
    asked = datetime.fromisoformat(submission.created_at).timestamp()
    for work in works:
        if work.asset == "checkpoint" and not work.trial and work.address and work.attempt and work.claimed_at >= asked:
            return waits_of(Attempt(store, work.address, work.attempt))
    return ()


def tenants(store: Store) -> list[str]:
    """Tenants with submissions."""
    return [name for name in store.tenants() if "submissions" in store.folders(name)]


def get_submission(store: Store, submission_id: str) -> Submission:
    """The submission with this id, of any tenant. Raises UserError if there is none."""
    for tenant in tenants(store):
        if found := find_submission(store, tenant, submission_id):
            return found
    raise UserError(
        f"there is no submission {submission_id!r}", where="submission", remedy="List all submissions: ft status"
    )


def newest_first(store: Store, tenant: str = "") -> list[Submission]:
    """All submissions of one tenant, or of all."""
    names = [tenant] if tenant else tenants(store)
    found = [submission for name in names for submission in all_submissions(store, name)]
    return sorted(found, key=lambda submission: submission.created_at, reverse=True)
