"""Outcomes and rollouts for tests."""

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from ft_assets.control.rollouts.look import model_name
from ft_assets.control.rollouts.rollouts import RecordKind, RolloutPlan, RolloutRecord
from ft_assets.records.outcomes import Outcome, OutcomeLog
from ft_assets.settings.rollout_settings import Kind
from ft_resources.artifacts import InputRef
from ft_resources.canonical import digest, sha256_bytes
from ft_resources.store import Store
from tests.control.lines.promotable import LINE

BEGIN = datetime(2026, 5, 1, 12, tzinfo=UTC)
_LATER = timedelta(days=1000)


def outcome(adapter: InputRef, value: float, at: datetime, *, kind: Kind = "thumbs", request: str = "") -> Outcome:
    when = at.isoformat(timespec="milliseconds")
    return Outcome(
        model=model_name(LINE, adapter), request=request or f"{kind}-{at.timestamp()}", kind=kind, value=value, at=when
    )


def leave_outcomes(store: Store, outcomes: Iterable[Outcome], server: str = "one") -> None:
    """Write them as a server does that ends then."""
    log = OutcomeLog(store, server)
    for each in outcomes:
        log.add(each)
    log.flush(BEGIN + _LATER)


def traffic(
    candidate: InputRef,
    incumbent: InputRef,
    *,
    good: tuple[float, float],
    n: int,
    begin: datetime,
    kind: Kind = "thumbs",
) -> list[Outcome]:
    """``n`` outcomes of each in turn, half a second apart, of which these shares are good, evenly spread."""
    found = []
    for number in range(n):
        for place, (adapter, share) in enumerate(zip((candidate, incumbent), good, strict=True)):
            value = float(int((number + 1) * share) > int(number * share))
            at = begin + timedelta(seconds=number + place / 2)
            found.append(outcome(adapter, value, at, kind=kind))
    return found


def made_rollout(
    kind: RecordKind, weight: int, *, after: RolloutRecord | None = None, reason: str = "try it"
) -> RolloutRecord:
    """A record that nobody checked: of a new rollout, or of that of the one before."""
    drawn = uuid.uuid4().hex
    candidate, incumbent = (InputRef(address=f"acme/adapter/{name}", digest=digest(name)) for name in ("c", "i"))
    return RolloutRecord(
        id=drawn,
        line=LINE,
        seq=after.seq + 1 if after else 1,
        kind=kind,
        rollout=after.rollout if after else drawn,
        candidate=candidate,
        incumbent=incumbent,
        plan=RolloutPlan(
            steps=[5, 25, 100],
            minimum=1,
            margins={"thumbs": 0.05},
            latency_limit_s=None,
            waive_incumbent=False,
            made_by="",
        ),
        weight=weight,
        evidence=[],
        findings=[],
        actor="ann",
        reason=reason,
        at=BEGIN.isoformat(timespec="milliseconds"),
        previous=sha256_bytes(after.data()) if after else "",
    )
