"""The monthly report of a tenant: jobs, GPU-hours, success rate, cost. Pure, from the ledger's rows."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ft_assets.control.metering.ledger import UsageRow
from ft_assets.settings.tenants import Quota

# A rejected candidate counts as success, as the gates did their job, and so does an ungated result that was asked for.
DELIVERED = ("accepted", "rejected", "ungated")


@dataclass(frozen=True, kw_only=True)
class MonthReport:
    """What a tenant used and pays in a month.

    Args:
        jobs: number of ended submissions by outcome.
        success_rate: share of accepted, rejected and ungated ones among all but the cancelled; None if there are none.
        gpu_hours: occupied hours. Of these ``billed_hours`` are paid, ``refunded_hours`` are not, and ``flagged_hours``
            are billed until a decision is made. ``overage_hours`` are billed hours beyond the soft quota.
        cost: in ``currency``; overage is multiplied by its factor.
    """

    tenant: str
    month: str
    jobs: Mapping[str, int]
    success_rate: float | None
    attempts: int
    gpu_hours: float
    billed_hours: float
    refunded_hours: float
    flagged_hours: float
    overage_hours: float
    cost: float
    currency: str
    by_outcome: Mapping[str, float]


def month_report(
    tenant: str, month: str, rows: Sequence[UsageRow], jobs: Mapping[str, int], quota: Quota, currency: str
) -> MonthReport:
    """The report from rows in order of the attempts' ends: hours beyond the soft quota are the last ones."""
    billed = overage = cost = 0.0
    by_outcome: dict[str, float] = defaultdict(float)
    for row in rows:
        hours = row.billed_hours
        room = hours if quota.soft_gpu_hours is None else max(0.0, min(hours, quota.soft_gpu_hours - billed))
        cost += row.price * (room + (hours - room) * quota.overage_factor)
        overage += hours - room
        billed += hours
        by_outcome[row.outcome] += row.gpu_hours
    ended = sum(count for status, count in jobs.items() if status != "cancelled")
    total = sum(row.gpu_hours for row in rows)
    return MonthReport(
        tenant=tenant,
        month=month,
        jobs=dict(sorted(jobs.items())),
        success_rate=sum(jobs.get(status, 0) for status in DELIVERED) / ended if ended else None,
        attempts=len(rows),
        gpu_hours=total,
        billed_hours=billed,
        refunded_hours=total - billed,
        flagged_hours=sum(row.gpu_hours for row in rows if row.flagged),
        overage_hours=overage,
        cost=cost,
        currency=rows[-1].currency if rows else currency,
        by_outcome=dict(sorted(by_outcome.items())),
    )
