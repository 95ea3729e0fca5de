"""What became of a wish: status, logs, and stopping it on purpose."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ft_assets.api.addresses import find_address
from ft_assets.api.defaults import Orchestrator, actor_or_user, orchestrator_or_default, store_or_default
from ft_assets.control.submissions.sharing import needed_by_others
from ft_assets.control.submissions.status import State, Status, get_submission, status_of
from ft_assets.control.submissions.sweep_progress import TrialProgress, trial_progress
from ft_assets.control.submissions.waiting import with_reason
from ft_assets.control.submissions.works import Work, last_attempts, read_works
from ft_assets.records.submissions import Submission, SubmissionOutcome, SubmissionStatus, find_outcome, finish
from ft_assets.workers.training.early_stopping import STOPPED_EARLY
from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.errors import UserError
from ft_resources.execution import Execution
from ft_resources.launchers.base import Launcher
from ft_resources.launchers.choice import make_launcher
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    """What cancelling stopped: jobs, and workers by the addresses they worked at."""

    submission: Submission
    runs: int
    workers: tuple[Address, ...]


@dataclass(frozen=True, kw_only=True)
class Logs:
    """Where the logs of a submission, or of one artifact, are.

    Args:
        attempts: the last attempt at each piece of work; their ``chunks("log", after)`` are the text.
        ended: whether no more of it is to come.
        status: how the submission stands, and why; None for an artifact.
    """

    attempts: Callable[[], list[Attempt]]
    ended: Callable[[], bool]
    status: Callable[[], Status | None] = lambda: None


def status(submission: str, *, store: Store | None = None, launcher: Launcher | None = None) -> Status:
    """How a submission stands, and why its work waits where the launcher knows.

    Raises UserError for an unknown id, and where there is no launcher as ``FT_LAUNCHER`` wants it.
    """
    store = store_or_default(store)
    one = get_submission(store, submission)
    explains = (launcher or make_launcher()).explains
    found = replace(status_of(store, one), stopped_early=_stopped_early(store, one))
    return with_reason(store, one, found, explains) if explains else found


def _stopped_early(store: Store, submission: Submission) -> int | None:
    """The last step of the submission's training, if it stopped early."""
    try:
        found = read_works(store, submission)
    except UserError:
        # Whose records cannot be read is part of the status.
        return None
    return next(
        (work.facts.get(STOPPED_EARLY) for work in found if work.asset == "checkpoint" and not work.trial), None
    )


def works(submission: Submission, *, store: Store | None = None) -> tuple[Work, ...]:
    """The pieces of work of a submission in order, each with its last attempt, as far as today's inputs determine them.

    Raises UserError for records that cannot be read.
    """
    return read_works(store_or_default(store), submission)


def sweep_progress(submission: str, *, store: Store | None = None) -> list[TrialProgress]:
    """The trials of a submission whose recipe is a sweep, in their order; none for any other."""
    store = store_or_default(store)
    return trial_progress(store, get_submission(store, submission))


def logs(target: str, *, store: Store | None = None) -> Logs:
    """The logs of a submission (its id), or of what works at an address. Raises UserError for neither."""
    store = store_or_default(store)
    if "/" not in target:
        submission = get_submission(store, target)
        standing = partial(status_of, store, submission)
        return Logs(
            attempts=lambda: list(last_attempts(store, submission)),
            # Of one that nobody goes on with, no more is to come.
            ended=lambda: find_outcome(store, submission) is not None or standing().state is State.STOPPED,
            status=standing,
        )
    address = find_address(target, store=store)

    def last() -> list[Attempt]:
        return attempts_at(store, address)[-1:]

    return Logs(attempts=last, ended=lambda: all(attempt.ending() is not None for attempt in last()))


def cancel(
    submission: str,
    *,
    store: Store | None = None,
    actor: str = "",
    orchestrator: Orchestrator | None = None,
    launcher: Launcher | None = None,
) -> Cancelled:
    """Stop the work of a submission, unless another one needs it too, and record that it was cancelled.

    Cancelling again stops what is left. Raises UserError for an unknown id, and for a submission that has ended
    otherwise.
    """
    store, actor = store_or_default(store), actor_or_user(actor)
    found = get_submission(store, submission)
    outcome = find_outcome(store, found)
    if outcome is not None and outcome.status is not SubmissionStatus.CANCELLED:
        raise UserError(f"it has ended already: {outcome.status}", where=f"submission {submission}")
    at_work = [work.address for work in read_works(store, found) if work.address is not None and work.running]
    mine = [address for address in at_work if not needed_by_others(store, address, found)]
    # The record first: nothing starts for an ended submission, so what is stopped below stays stopped.
    finish(store, found, SubmissionStatus.CANCELLED, reason=f"cancelled by {actor}")
    runs = orchestrator_or_default(orchestrator).end_runs(found)
    execution = Execution(store=store, launcher=launcher or make_launcher())
    workers = tuple(address for address in mine if execution.cancel(address, actor=actor))
    return Cancelled(submission=found, runs=runs, workers=workers)


def end_interrupted(submission: Submission, *, store: Store | None = None, actor: str = "") -> SubmissionOutcome:
    """Record that whoever waited for the submission interrupted it; how it ended before stands."""
    store = store_or_default(store)
    reason = f"interrupted by {actor_or_user(actor)}"
    return find_outcome(store, submission) or finish(store, submission, SubmissionStatus.CANCELLED, reason=reason)
