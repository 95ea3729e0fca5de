"""Rate limits: how many requests a key, a tenant or an address may make, counted over all servers together.

A leaky bucket as the generic cell rate algorithm keeps it (ITU-T I.371): it stores for each subject only the time at
which its full allowance is restored. A request moves that time on by the interval of one request, and is refused if it
would then be more than a minute away. So a whole minute's requests may come at once, and then one at a time. One
statement counts a request for all of its subjects.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import time
from typing import Any

import sqlalchemy as sa

from ft_assets.control.access.tables import rate_limits
from ft_resources.database import Database

_WINDOW_S = 60.0
# Sums of times since the epoch are exact to some 0.1 milliseconds.
_LATEST_S = _WINDOW_S + 0.001


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Requests a minute of ``subject``, such as ``tenant:acme``."""

    subject: str
    per_minute: int


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The state of a limit.

    Args:
        remaining: requests that may come immediately.
        reset_s: seconds until the full allowance is restored.
        retry_s: seconds until the next one is allowed; 0.0 if this one was.
    """

    limit: int
    remaining: int
    reset_s: float
    retry_s: float


def count_request(database: Database, limits: Sequence[Limit]) -> list[Allowance]:
    """Count a request, and return the state of each limit in the same order; a refused request is not counted.

    Subjects are sorted by how many share them, so that concurrent servers lock them in the same order.
    """
    with database.begin() as connection:
        return count_within(connection, database, limits)


def count_within(connection: sa.Connection, database: Database, limits: Sequence[Limit]) -> list[Allowance]:
    """``count_request`` in a transaction that the caller began."""
    if not limits:
        return []
    now = time()
    rows = [
        {"subject": each.subject, "full_at": now + _WINDOW_S / each.per_minute, "now": now, "latest": now + _LATEST_S}
        for each in limits
    ]
    # Rows as parameters, so that SQLAlchemy compiles the statement once.
    found = connection.execute(_counting(database), rows).all()
    left = {row.subject: (row.full_at - now, row.refused) for row in found}
    return [_allowance(limit, *left[limit.subject]) for limit in limits]


def _counting(database: Database) -> Any:
    now, latest = sa.bindparam("now", type_=sa.Float), sa.bindparam("latest", type_=sa.Float)
    counted = database.insert(rate_limits).values(
        subject=sa.bindparam("subject"), full_at=sa.bindparam("full_at"), refused=False
    )
    known, cost = rate_limits.c.full_at, counted.excluded.full_at - now
    moved = sa.case((known > now, known), else_=now) + cost
    fits = moved <= latest
    changes = {"full_at": sa.case((fits, moved), else_=known), "refused": sa.not_(fits)}
    counted = counted.on_conflict_do_update(index_elements=[rate_limits.c.subject], set_=changes)
    return counted.returning(*rate_limits.c)


def forget_old(database: Database) -> None:
    """Remove subjects whose full allowance is restored: they count as new ones."""
    # Rows that a request is counting are skipped, not waited for.
    old = sa.select(rate_limits.c.subject).where(rate_limits.c.full_at < time()).with_for_update(skip_locked=True)
    with database.begin() as connection:
        connection.execute(sa.delete(rate_limits).where(rate_limits.c.subject.in_(old)))


def _allowance(limit: Limit, ahead_s: float, refused: bool) -> Allowance:
    each_s = _WINDOW_S / limit.per_minute
    return Allowance(
        limit=limit.per_minute,
        remaining=0 if refused else max(0, int((_WINDOW_S - ahead_s) / each_s + 0.05)),
        reset_s=max(0.0, ahead_s),
        retry_s=max(0.001, ahead_s + each_s - _WINDOW_S) if refused else 0.0,
    )
