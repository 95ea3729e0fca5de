"""GPU-hours promised to a tenant's submissions: create-only records, each with the state that it leads to.

Record ``seq`` lies at ``<tenant>/quota/<YYYY-MM>/<seq>.json``. Whoever creates it has decided, so two submissions at
once cannot both take the last hours: one wins, and the other looks again at what is left. As every record carries the
whole state, only the last one is read, however many a month has; each names the digest of the one before it.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ft_resources.canonical import canonical_json, sha256_bytes
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.records import RESTORE
from ft_resources.store import Store

_NAME = re.compile(r"[0-9]{6}\.json")
# Each lost race is somebody else's success; more than so many in a row is no race any more.
_TRIES = 200

Hours = float


class QuotaRecord(BaseModel):
    """One promise, or its end, and the state after it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    version: Literal[1] = 1
    tenant: str
    month: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}$", description="UTC.")
    seq: int = Field(ge=1)
    kind: Literal["reserve", "release"]
    submission: str = Field(min_length=1, description="Id of the submission that it is about.")
    hours: Hours = Field(ge=0.0, description="GPU-hours that are promised, or no longer are.")
    actor: str = Field(min_length=1)
    at: str = Field(description="UTC, ISO 8601.")
    open: dict[str, Hours] = Field(description="Promised GPU-hours, by submission.")
    previous: str = Field(description="sha256 of the record before this one, empty for the first.")

    @property
    def path(self) -> str:
        return f"{quota_folder(self.tenant, self.month)}/{self.seq:06d}.json"


@dataclass(frozen=True, kw_only=True)
class QuotaState:
    """What a month's log says: promised hours by submission."""

    tenant: str
    month: str
    seq: int = 0
    open: Mapping[str, Hours]
    head: str = ""

    @property
    def reserved(self) -> Hours:
        """GPU-hours promised to all together."""
        return math.fsum(self.open.values())


def quota_folder(tenant: str, month: str) -> str:
    """Where the log of a tenant's month lies."""
    return f"{tenant}/quota/{month}"


def read_quota(store: Store, tenant: str, month: str) -> QuotaState:
    """The state of a tenant's month (``YYYY-MM``, UTC). Raises CorruptArtifact for a gap or a foreign file."""
    folder = quota_folder(tenant, month)
    names = sorted(entry.path.rsplit("/", 1)[-1] for entry in store.entries(folder))
    expected = [f"{number:06d}.json" for number in range(1, len(names) + 1)]
    if names != expected:
        odd = next((name for name in names if not _NAME.fullmatch(name)), None)
        what = f"{odd} is no record of a quota" if odd else "a record of this quota is missing"
        raise CorruptArtifact(what, where=folder, remedy=RESTORE)
    if not names:
        return QuotaState(tenant=tenant, month=month, open={})
    path = f"{folder}/{names[-1]}"
    data = store.get(path)
    try:
        record = QuotaRecord.model_validate_json(data)
    except ValidationError as error:
        what = f"the quota's last record cannot be read ({error.error_count()} problems)"
        raise CorruptArtifact(what, where=path, remedy=RESTORE) from error
    if record.path != path:
        raise CorruptArtifact("this record belongs to another place", where=path, remedy=RESTORE)
    return _state_after(record, data)


def append(store: Store, tenant: str, month: str, *, decide: Callable[[QuotaState], QuotaRecord | None]) -> QuotaState:
    """Add what ``decide`` makes of the present state; where somebody else was faster, it decides again.

    ``decide`` gives None where nothing is to be added, and may raise to refuse; nothing is written then.
    """
    for _ in range(_TRIES):
        state = read_quota(store, tenant, month)
        record = decide(state)
        if record is None:
            return state
        data = canonical_json(record.model_dump(mode="json"))
        if store.create(record.path, data):
            return _state_after(record, data)
    raise UserError(
        f"{_TRIES} other records of the quota were faster, one after the other",
        where=quota_folder(tenant, month),
        remedy="Try again; if this goes on, look who submits for this tenant.",
    )


def reservation(state: QuotaState, submission: str, hours: Hours, *, actor: str, at: str) -> QuotaRecord:
    """The record that promises ``hours`` to ``submission``."""
    return _following(state, "reserve", submission, hours, {**state.open, submission: hours}, actor, at)


def release(state: QuotaState, submission: str, *, actor: str, at: str) -> QuotaRecord | None:
    """The record that ends the promise to ``submission``; None where there is none."""
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


def _state_after(record: QuotaRecord, data: bytes) -> QuotaState:
    return QuotaState(
        tenant=record.tenant, month=record.month, seq=record.seq, open=record.open, head=sha256_bytes(data)
    )
