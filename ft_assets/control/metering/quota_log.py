"""GPU-hours reserved for a tenant's submissions: a log of create-only records, each with the resulting state.

Record ``seq`` is at ``<tenant>/quota/<YYYY-MM>/<seq>.json``. Creating it is the decision, so two concurrent submissions
cannot both take the last hours: one wins, and the other re-reads what is left. Every record carries the whole state, so
only the last one is read; each names the digest of its predecessor.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from ft_assets.records.chained_log import ChainedLog, ChainedRecord
from ft_resources.canonical import sha256_bytes
from ft_resources.errors import UserError
from ft_resources.store import Store

# Each lost race is another process's success; more in a row than this is not contention any more.
_TRIES = 200

Hours = float


class QuotaRecord(ChainedRecord):
    """A reservation or its release, and the state after it."""

    WHAT: ClassVar[str] = "the record of a quota"

    version: Literal[1] = 1
    tenant: str
    month: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}$", description="UTC.")
    kind: Literal["reserve", "release"]
    submission: str = Field(min_length=1, description="Id of the submission.")
    hours: Hours = Field(ge=0.0, description="GPU-hours that are reserved or released.")
    actor: str = Field(min_length=1)
    at: str = Field(description="UTC, ISO 8601.")
    open: dict[str, Hours] = Field(description="Reserved GPU-hours, by submission.")

    @property
    def path(self) -> str:
        return f"{quota_folder(self.tenant, self.month)}/{self.seq:06d}.json"


@dataclass(frozen=True, kw_only=True)
class QuotaState:
    """A month's state: reserved hours by submission."""

    tenant: str
    month: str
    seq: int = 0
    open: Mapping[str, Hours]
    head: str = ""

    @property
    def reserved(self) -> Hours:
        """Total GPU-hours reserved."""
        return math.fsum(self.open.values())


def quota_folder(tenant: str, month: str) -> str:
    """The folder of a tenant's log for a month."""
    return f"{tenant}/quota/{month}"


def read_quota(store: Store, tenant: str, month: str) -> QuotaState:
    """The state of a tenant's month (``YYYY-MM``, UTC). Raises CorruptArtifact for a gap or a foreign file."""
    log = _log(store, tenant, month)
    length = log.length()
    return _state_after(log.at(length)) if length else QuotaState(tenant=tenant, month=month, open={})


def append(store: Store, tenant: str, month: str, *, decide: Callable[[QuotaState], QuotaRecord | None]) -> QuotaState:
    """Append what ``decide`` returns for the current state; after a lost race it decides again.

    ``decide`` returns None to add nothing, and may raise to refuse; then nothing is written.
    """
    for _ in range(_TRIES):
        state = read_quota(store, tenant, month)
        record = decide(state)
        if record is None:
            return state
        if _log(store, tenant, month).append(record) == record:
            return _state_after(record)
    raise UserError(
        f"the quota's record was changed concurrently in {_TRIES} consecutive attempts",
        where=quota_folder(tenant, month),
        remedy="Try again. If this persists, check the submissions of this tenant.",
    )


def reservation(state: QuotaState, submission: str, hours: Hours, *, actor: str, at: str) -> QuotaRecord:
    """The record that reserves ``hours`` for ``submission``."""
    return _following(state, "reserve", submission, hours, {**state.open, submission: hours}, actor, at)


def release(state: QuotaState, submission: str, *, actor: str, at: str) -> QuotaRecord | None:
    """The record that releases the reservation of ``submission``, or None."""
    if submission not in state.open:
        return None
    left = {key: value for key, value in state.open.items() if key != submission}
    return _following(state, "release", submission, state.open[submission], left, actor, at)


def _following(
    state: QuotaState,
    kind: Literal["reserve", "release"],
    submission: str,
    hours: Hours,
    promised: Mapping[str, Hours],
    actor: str,
    at: str,
) -> QuotaRecord:
    return QuotaRecord(
        tenant=state.tenant,
        month=state.month,
        seq=state.seq + 1,
        kind=kind,
        submission=submission,
        hours=hours,
        actor=actor,
        at=at,
        open=dict(promised),
        previous=state.head,
    )


def _state_after(record: QuotaRecord) -> QuotaState:
    head = sha256_bytes(record.data())
    return QuotaState(tenant=record.tenant, month=record.month, seq=record.seq, open=record.open, head=head)


def _log(store: Store, tenant: str, month: str) -> ChainedLog[QuotaRecord]:
    return ChainedLog(store=store, folder=quota_folder(tenant, month), kind=QuotaRecord)
