"""Logs and outcomes in pieces, for remote callers that cannot wait in one call."""

from dataclasses import dataclass

from pydantic import Base64Bytes

from ft_assets.api.defaults import store_or_default
from ft_assets.api.submissions import logs
from ft_assets.control.submissions.status import Status, get_submission
from ft_assets.records.submissions import SubmissionOutcome, find_outcome
from ft_resources.artifacts import Address
from ft_resources.store import Store

_MOST_BYTES = 4 << 20


@dataclass(frozen=True, kw_only=True)
class LoggedAttempt:
    """An attempt that has a log: the path of its records, the artifact's address, and the attempt's number."""

    path: str
    address: Address
    number: int


@dataclass(frozen=True, kw_only=True)
class LogState:
    """Which attempts there are, whether no more of their logs is to come, and how the submission stands; None for an
    artifact."""

    attempts: tuple[LoggedAttempt, ...]
    ended: bool
    status: Status | None


def log_state(target: str, *, tenant: str = "", store: Store | None = None) -> LogState:
    """What ``logs`` finds, of work that makes artifacts of ``tenant`` only, if it is given. Raises as ``logs``."""
    found = logs(target, store=store)
    # Read first, so that the attempts include everything that was written before the end.
    ended = found.ended()
    attempts = tuple(
        LoggedAttempt(path=each.path, address=each.address, number=each.number)
        for each in found.attempts()
        if tenant in ("", each.address.tenant)
    )
    return LogState(attempts=attempts, ended=ended, status=found.status())


def log_chunks(
    target: str, attempt: str, *, after: int = 0, tenant: str = "", store: Store | None = None
) -> list[tuple[int, Base64Bytes]]:
    """Numbered pieces of the log of ``attempt``, the path of one of the ``log_state`` of ``target``: those after
    ``after``, up to some 4 MB. None where it is no longer one of them."""
    found = (each for each in logs(target, store=store).attempts() if each.path == attempt)
    here = next((each for each in found if tenant in ("", each.address.tenant)), None)
    chunks: list[tuple[int, Base64Bytes]] = []
    size = 0
    for number, data in here.chunks("log", after) if here else ():
        chunks.append((number, data))
        size += len(data)
        if size > _MOST_BYTES:
            break
    return chunks


def outcome(submission: str, *, store: Store | None = None) -> SubmissionOutcome | None:
    """How a submission ended; None while it is open. Raises UserError for an unknown id."""
    store = store_or_default(store)
    return find_outcome(store, get_submission(store, submission))
