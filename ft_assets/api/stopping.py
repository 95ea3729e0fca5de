"""Stop a submission on purpose: cancel it, or pause it and resume it later."""

from dataclasses import dataclass

from ft_assets.api.defaults import Orchestrator, actor_or_user, orchestrator_or_default, store_or_default
from ft_assets.control.submissions import pauses
from ft_assets.control.submissions.sharing import needed_by_others
from ft_assets.control.submissions.status import get_submission
from ft_assets.control.submissions.works import export_works, read_works
from ft_assets.records.pauses import PauseChange, record_pause, record_resumption
from ft_assets.records.submissions import Submission, SubmissionOutcome, SubmissionStatus, find_outcome, finish
from ft_resources.artifacts import Address
from ft_resources.errors import UserError
from ft_resources.execution import Execution
from ft_resources.launchers.base import Launcher
from ft_resources.launchers.choice import make_launcher
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """What stopping a submission stopped: jobs, and workers by the addresses they worked at. ``shared`` are those that
    go on, as another open submission needs what they make."""

    submission: Submission
    runs: int
    workers: tuple[Address, ...]
    shared: tuple[Address, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Paused(Stopped):
    """A paused submission. ``created`` is False where it was paused already, which ``pause`` then tells of."""

    pause: PauseChange
    created: bool


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """A submission that may go on. ``created`` is False where it was not paused; ``command`` is what goes on with it
    where a caller's process launches its runs, "" where the submissions sensor does."""

    submission: Submission
    created: bool
    command: str


def cancel(
    submission: str,
    *,
    store: Store | None = None,
    actor: str = "",
    orchestrator: Orchestrator | None = None,
    launcher: Launcher | None = None,
) -> Stopped:
    """Stop the work of a submission, unless another one needs it too, and record that it was cancelled.

    Cancelling again stops what is left. Raises UserError for an unknown id, and for a submission that has ended
    otherwise.
    """
    store, actor = store_or_default(store), actor_or_user(actor)
    found = get_submission(store, submission)
    _require_open(store, found, but=SubmissionStatus.CANCELLED)
    # The record first: nothing is started for an ended submission, so what is stopped below stays stopped.
    finish(store, found, SubmissionStatus.CANCELLED, reason=f"cancelled by {actor}")
    return _stop(store, found, actor, orchestrator, launcher)


def pause(
    submission: str,
    *,
    reason: str = "",
    store: Store | None = None,
    actor: str = "",
    orchestrator: Orchestrator | None = None,
    launcher: Launcher | None = None,
) -> Paused:
    """Stop the work of an open submission, unless another one needs it too, and launch nothing for it until ``resume``.

    A training saves its state when it is stopped, and goes on from there. What is finished before its worker is stopped
    is finished. Pausing again stops what is left. Raises UserError for an unknown id, and for a submission that has
    ended.
    """
    store, actor = store_or_default(store), actor_or_user(actor)
    found = get_submission(store, submission)
    _require_open(store, found)
    # The record first, as for ``cancel``.
    standing, created = record_pause(store, found, actor=actor, reason=reason)
    stopped = _stop(store, found, actor, orchestrator, launcher)
    return Paused(**vars(stopped), pause=standing, created=created)


def resume(submission: str, *, store: Store | None = None, actor: str = "") -> Resumed:
    """Let a paused submission go on: the submissions sensor of a running Dagster launches its work, or whoever calls
    ``fine_tune`` for the pair again where a caller's process did so before.

    Raises UserError for an unknown id, and for a submission that has ended.
    """
    store, actor = store_or_default(store), actor_or_user(actor)
    found = get_submission(store, submission)
    _require_open(store, found)
    created = record_resumption(store, found, actor=actor)
    return Resumed(submission=found, created=created, command=pauses.go_on(found) if found.driver == "caller" else "")


def require_not_paused(submission: Submission, *, store: Store | None = None) -> None:
    """Raise SubmissionPaused, which says by whom and how it goes on, for a paused submission."""
    pauses.require_not_paused(store_or_default(store), submission)


def end_interrupted(submission: Submission, *, store: Store | None = None, actor: str = "") -> SubmissionOutcome:
    """Record that its foreground process was interrupted; an earlier end of the submission stands."""
    store = store_or_default(store)
    reason = f"interrupted by {actor_or_user(actor)}"
    return find_outcome(store, submission) or finish(store, submission, SubmissionStatus.CANCELLED, reason=reason)


def _require_open(store: Store, submission: Submission, but: SubmissionStatus | None = None) -> None:
    outcome = find_outcome(store, submission)
    if outcome is not None and outcome.status is not but:
        raise UserError(f"it has ended already: {outcome.status}", where=f"submission {submission.id}")


def _stop(
    store: Store, submission: Submission, actor: str, orchestrator: Orchestrator | None, launcher: Launcher | None
) -> Stopped:
    """End the jobs of a submission, and the workers that no other submission needs."""
    works = (*read_works(store, submission), *export_works(store, submission))
    at_work = [work.address for work in works if work.address is not None and work.running]
    shared = tuple(address for address in at_work if needed_by_others(store, address, submission))
    runs = orchestrator_or_default(orchestrator).end_runs(submission)
    execution = Execution(store=store, launcher=launcher or make_launcher())
    mine = (address for address in at_work if address not in shared)
    workers = tuple(address for address in mine if execution.cancel(address, actor=actor))
    return Stopped(submission=submission, runs=runs, workers=workers, shared=shared)
