"""The metering ledger: usage and ended submissions in SQL, for reports and invoices.

PostgreSQL in production, SQLite embedded (``FT_METERING_DB``, an SQLAlchemy URL). It is a view of the store's
create-only records: rows have the records' keys and inserts are idempotent, so it may be filled repeatedly, by several
processes, and from scratch.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ft_assets.control.metering.refunds import RefundDecision
from ft_assets.control.metering.tables import jobs, refunds, usage
from ft_assets.control.metering.usage import UsageRecord
from ft_assets.records.submissions import Submission, SubmissionOutcome
from ft_resources.database import Database, Schema

_SCHEMA = Schema(
    what="the metering database",
    variable="FT_METERING_DB",
    migrations=Path(__file__).parent / "migrations",
    lock=7361042,
    comfort="Nothing is lost: records are kept in the store and inserted when the database is available again.",
)
_DECIDED = (usage.c.tenant == refunds.c.tenant) & (usage.c.key == refunds.c.key)


@dataclass(frozen=True, kw_only=True)
class UsageRow:
    """What a report needs about an attempt; ``decision`` is the refund decision of a flagged one, or ""."""

    key: str
    asset: str
    outcome: str
    refund: str
    gpu_hours: float
    price: float
    currency: str
    ended_at: float
    decision: str

    @property
    def billed_hours(self) -> float:
        return 0.0 if self.refund == "full" or self.decision == "refund" else self.gpu_hours

    @property
    def flagged(self) -> bool:
        """Whether a refund decision is still open."""
        return self.refund == "flagged" and not self.decision


class Ledger:
    """The metering tables at ``url``; opening it migrates the schema."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, _SCHEMA)

    def add_usage(self, records: Iterable[UsageRecord]) -> None:
        """Insert missing records."""
        self._insert(
            usage,
            [
                {
                    **record.model_dump(mode="json", exclude={"version"}),
                    "month": record.month,
                    "gpu_hours": record.gpu_hours,
                }
                for record in records
            ],
        )

    def add_refunds(self, tenant: str, decisions: Iterable[RefundDecision]) -> None:
        """Insert missing refund decisions of a tenant."""
        rows = [decision.model_dump(mode="json", exclude={"version"}) for decision in decisions]
        self._insert(refunds, [{"tenant": tenant, **row} for row in rows])

    def add_jobs(self, ended: Iterable[tuple[Submission, SubmissionOutcome]]) -> None:
        """Insert missing ended submissions."""
        self._insert(
            jobs,
            [
                {
                    "submission": submission.id,
                    "tenant": submission.tenant,
                    "month": outcome.at[:7],
                    "pair": submission.pair,
                    "actor": submission.actor,
                    "origin": submission.origin,
                    "status": outcome.status,
                    "asked_at": submission.created_at,
                    "ended_at": outcome.at,
                }
                for submission, outcome in ended
            ],
        )

    def usage_rows(self, tenant: str, month: str) -> list[UsageRow]:
        """A tenant's attempts in a month, in order of their ends."""
        query = (
            sa.select(usage, sa.func.coalesce(refunds.c.decision, "").label("decision"))
            .select_from(usage.outerjoin(refunds, _DECIDED))
            .where(usage.c.tenant == tenant, usage.c.month == month)
            .order_by(usage.c.ended_at, usage.c.key)
        )
        names = UsageRow.__dataclass_fields__
        with self._database.connect() as connection:
            return [UsageRow(**{name: row[name] for name in names}) for row in connection.execute(query).mappings()]

    def job_counts(self, tenant: str, month: str) -> dict[str, int]:
        """Number of a tenant's submissions in a month by outcome."""
        query = (
            sa.select(jobs.c.status, sa.func.count())
            .where(jobs.c.tenant == tenant, jobs.c.month == month)
            .group_by(jobs.c.status)
        )
        with self._database.connect() as connection:
            return {str(status): int(count) for status, count in connection.execute(query)}

    def keys(self, tenant: str, month: str) -> tuple[set[str], set[str]]:
        """Keys of a tenant's stored usage and decisions in a month."""
        mine = (usage.c.tenant == tenant) & (usage.c.month == month)
        used = sa.select(usage.c.key).where(mine)
        decided = sa.select(refunds.c.key).join(usage, _DECIDED).where(mine)
        with self._database.connect() as connection:
            return set(connection.scalars(used)), set(connection.scalars(decided))

    def submissions(self, tenant: str) -> set[str]:
        """Ids of a tenant's stored submissions."""
        with self._database.connect() as connection:
            return set(connection.scalars(sa.select(jobs.c.submission).where(jobs.c.tenant == tenant)))

    def close(self) -> None:
        self._database.close()

    def _insert(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        self._database.insert_missing(table, [_fitting(table, row) for row in rows])


def ledger_url() -> str:
    """``FT_METERING_DB``, or a SQLite file next to Dagster's own state."""
    default = Path(os.environ.get("FT_STATE", ".ft")).resolve() / "metering.db"
    return os.environ.get("FT_METERING_DB") or f"sqlite:///{default}"


def _fitting(table: sa.Table, row: dict[str, Any]) -> dict[str, Any]:
    """``row`` with strings truncated to fit: PostgreSQL rejects a batch for one that is too long or has a NUL.

    The full text is in the store's record.
    """
    lengths = {column.name: getattr(column.type, "length", None) for column in table.columns}
    return {
        name: value.replace("\x00", "")[: lengths[name]] if isinstance(value, str) else value
        for name, value in row.items()
    }
