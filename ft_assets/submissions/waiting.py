"""Why a submission's work waits for a place on a cluster, which only the cluster knows."""

from dataclasses import replace
from typing import Protocol

from ft_assets.submissions.record import Submission
from ft_assets.submissions.status import State, Status, Work, read_works
from ft_resources.attempts import Attempt
from ft_resources.errors import UserError
from ft_resources.kubernetes.waiting import Waiting
from ft_resources.store import Store

_STARTED = frozenset({"running", "ended", "gone"})


class Explains(Protocol):
    """A launcher that knows why an attempt's worker does not run."""

    def why_waiting(self, attempt: Attempt) -> Waiting: ...


def with_reason(store: Store, submission: Submission, status: Status, launcher: Explains) -> Status:
    """``status`` with why the work under way waits, where its worker has not reported yet; a cluster that does not
    answer changes nothing."""
    try:
        return explained(store, status, read_works(store, submission), launcher)
    except UserError:
        return status


def explained(store: Store, status: Status, works: tuple[Work, ...], launcher: Explains) -> Status:
    for work in works:
        if work.running and not work.progress and work.address is not None:
            waiting = launcher.why_waiting(Attempt(store, work.address, work.attempt))
            if waiting.reason in _STARTED:
                return status
            said = " ".join(filter(None, (f"waits: {waiting.what}.", waiting.remedy)))
            return replace(status, state=State.QUEUED, asset=work.asset, detail=said)
    return status
