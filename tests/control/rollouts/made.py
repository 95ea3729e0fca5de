"""Outcomes and rollouts for tests."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from ft_assets.control.rollouts.look import model_name
from ft_assets.records.outcomes import Outcome, OutcomeLog
from ft_assets.settings.rollout_settings import Kind
from ft_resources.artifacts import InputRef
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
