"""Why a submission's work waits for a place on a cluster, which only the cluster knows."""

from dataclasses import replace
from typing import Protocol, runtime_checkable

from ft_assets.submissions.record import Submission
from ft_assets.submissions.status import State, Status, Work, read_works
from ft_resources.attempts import Attempt
from ft_resources.errors import UserError
from ft_resources.kubernetes.api import ApiRefusal
from ft_resources.kubernetes.waiting import Waiting
from ft_resources.store import Store

_STARTED = frozenset({"running", "ended", "gone"})


@runtime_checkable
class Explains(Protocol):
    """A launcher that knows why an attempt's worker does not run."""

    def why_waiting(self, attempt: Attempt) -> Waiting: ...


def with_reason(store: Store, submission: Submission, status: Status, launcher: Explains) -> Status:
    """``status`` with why the work under way waits, where its worker has not reported yet; a cluster that does not
    answer changes nothing."""
    try:
        return explained(store, status, read_works(store, submission), launcher)
    except (UserError, ApiRefusal):
        return status


def explained(store: Store, status: Status, works: tuple[Work, ...], launcher: Explains) -> Status:
    found = _waiting(store, works, launcher)
    if found is None:
        return status
    work, waiting = found
    said = " ".join(filter(None, (f"waits: {waiting.what}.", waiting.remedy)))
    return replace(status, state=State.QUEUED, asset=work.asset, detail=said)


def reason_of(store: Store, submission: Submission, launcher: Explains) -> str:
    """Why the submission's work waits, for the platform: what it is, and the cluster's own words. Empty where nothing
    waits on the cluster. Raises UserError and ApiRefusal where that cannot be told."""
    found = _waiting(store, read_works(store, submission), launcher)
    if found is None:
        return ""
    work, waiting = found
    return f"{work.asset}: {waiting.what}{f' ({waiting.said})' if waiting.said else ''}"


def _waiting(store: Store, works: tuple[Work, ...], launcher: Explains) -> tuple[Work, Waiting] | None:
    """The first work under way that has not reported and why it waits; None where it has started."""
    for work in works:
        if work.running and not work.progress and work.address is not None:
            waiting = launcher.why_waiting(Attempt(store, work.address, work.attempt))
            return None if waiting.reason in _STARTED else (work, waiting)
    return None
