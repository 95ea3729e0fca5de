"""Why a submission's work waits for a place on a cluster; only the cluster knows the reason."""

from dataclasses import replace

from ft_assets.control.submissions.status import State, Status
from ft_assets.control.submissions.works import Work, export_works, read_works
from ft_assets.records.submissions import Submission
from ft_resources.attempts import Attempt
from ft_resources.errors import LauncherRefusal, UserError
from ft_resources.launchers.base import Explains
from ft_resources.store import Store
from ft_resources.waiting import Waiting

_STARTED = frozenset({"running", "ended", "gone"})


def with_reason(store: Store, submission: Submission, status: Status, launcher: Explains) -> Status:
    """``status`` with the reason why its work waits, if the worker has not reported yet; unchanged if the cluster does
    not answer."""
    try:
        works = (*read_works(store, submission), *export_works(store, submission))
        return explained(store, status, works, launcher)
    except (UserError, LauncherRefusal):
        return status


def explained(store: Store, status: Status, works: tuple[Work, ...], launcher: Explains) -> Status:
    found = _waiting(store, works, launcher)
    if found is None:
        return status
    work, waiting = found
    said = " ".join(filter(None, (f"waits: {waiting.what}.", waiting.remedy)))
    return replace(status, state=State.QUEUED, asset=work.asset, detail=said)


def reason_of(store: Store, submission: Submission, launcher: Explains) -> str:
    """Why the submission's work waits, for the platform: the work and the cluster's own words. Empty if nothing waits
    on the cluster. Raises UserError and LauncherRefusal if that cannot be determined."""
    found = _waiting(store, read_works(store, submission), launcher)
    if found is None:
        return ""
    work, waiting = found
    return f"{work.asset}: {waiting.what}{f' ({waiting.said})' if waiting.said else ''}"


def _waiting(store: Store, works: tuple[Work, ...], launcher: Explains) -> tuple[Work, Waiting] | None:
    """The first work in progress that has not reported, and why it waits; None if it has started."""
    for work in works:
        if work.running and not work.progress and work.address is not None:
            waiting = launcher.why_waiting(Attempt(store, work.address, work.attempt))
            return None if waiting.reason in _STARTED else (work, waiting)
    return None
