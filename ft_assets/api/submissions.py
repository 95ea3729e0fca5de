"""Submissions: status, work and logs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ft_assets.api.addresses import find_address
from ft_assets.api.defaults import store_or_default
from ft_assets.control.exports.progress import ExportProgress, export_progress
from ft_assets.control.submissions.place import with_place
from ft_assets.control.submissions.status import (
    FINAL,
    State,
    Status,
    get_submission,
    start_of,
    status_of,
    stopped_early,
)
from ft_assets.control.submissions.sweep_progress import TrialProgress, trial_progress
from ft_assets.control.submissions.waiting import with_reason
from ft_assets.control.submissions.works import Work, last_attempts, read_works
from ft_assets.records.submissions import Submission, find_outcome
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.errors import UserError
from ft_resources.first_step import Wait as Wait
from ft_resources.launchers.base import Launcher
from ft_resources.launchers.choice import make_launcher
from ft_resources.store import Store
from ft_resources.store_glance import Glance

# Nothing happens until a person acts.
_IDLE = (State.STOPPED, State.PAUSED)


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
    store = Glance(store_or_default(store))
    return standing(get_submission(store, submission), store=store, launcher=launcher)


def standing(one: Submission, *, store: Store, launcher: Launcher | None = None) -> Status:
    """``status`` of a submission at hand."""
    store = store if isinstance(store, Glance) else Glance(store)
    found = status_of(store, one)
    if found.state not in FINAL:
        explains = (launcher or make_launcher()).explains
        if explains and found.state is not State.PAUSED:
            found = with_reason(store, one, found, explains)
        found = with_place(store, one, found)
    try:
        made = read_works(store, one)
        return replace(found, stopped_early=stopped_early(made), start=start_of(store, one, made))
    except UserError:
        # Records that cannot be read do not hide how it stands.
        return found


def works(submission: Submission, *, store: Store | None = None) -> tuple[Work, ...]:
    """The pieces of work of a submission in order, each with its last attempt, as far as today's inputs determine them.

    Raises UserError for records that cannot be read.
    """
    return read_works(store_or_default(store), submission)


def sweep_progress(submission: str, *, store: Store | None = None) -> list[TrialProgress]:
    """The trials of a submission whose recipe is a sweep, in their order; none for any other."""
    store = store_or_default(store)
    return trial_progress(store, get_submission(store, submission))


def exports_of(submission: str, *, store: Store | None = None) -> list[ExportProgress]:
    """How the exports of a submission's adapter stand: those that its recipe asks for, and what was made by hand; none
    before the adapter is made. Raises UserError for an unknown id."""
    store = Glance(store_or_default(store))
    return export_progress(store, get_submission(store, submission))


def logs(target: str, *, store: Store | None = None) -> Logs:
    """The logs of a submission (its id), or of what works at an address. Raises UserError for neither."""
    store = store_or_default(store)
    if "/" not in target:
        submission = get_submission(store, target)
        now = partial(status_of, store, submission)
        return Logs(
            attempts=lambda: list(last_attempts(store, submission)),
            # Of one that nobody goes on with, no more is to come.
            ended=lambda: find_outcome(store, submission) is not None or now().state in _IDLE,
            status=now,
        )
    address = find_address(target, store=store)

    def last() -> list[Attempt]:
        return attempts_at(store, address)[-1:]

    return Logs(attempts=last, ended=lambda: all(attempt.ending() is not None for attempt in last()))
