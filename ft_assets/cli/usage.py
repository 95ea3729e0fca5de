"""``ft usage``: what tenants used and pay, month by month. ``ft refund``: the decisions on flagged attempts."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ft_assets.cli.environment import actor, open_store

if TYPE_CHECKING:
    from ft_assets.metering.ledger import UsageRow
    from ft_assets.metering.report import MonthReport

Month = Annotated[str, typer.Option(help="YYYY-MM, UTC; this month where not given.")]


def usage(
    tenant: Annotated[str, typer.Argument(help="Name of the tenant; all of them where not given.")] = "",
    month: Month = "",
    attempts: Annotated[bool, typer.Option("--attempts", help="List every attempt.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The monthly report: jobs, GPU-hours, success rate, cost, and what is promised to what has not ended."""
    from ft_assets.cli.output import print_json, print_table

    found = _reports(tenant, _month(month))
    if as_json:
        print_json([_as_json(report, rows, promised, attempts) for report, rows, promised in found])
        return
    columns = [
        "tenant",
        "jobs",
        "delivered",
        "GPU-hours",
        "billed",
        "overage",
        "refunded",
        "flagged",
        "promised",
        "cost",
    ]
    print_table(columns, [_cells(report, promised) for report, _, promised in found], empty="Nothing was used.")
    if attempts:
        rows = [
            [row.key, row.outcome, f"{row.gpu_hours:.4f}", row.decision or row.refund]
            for _, listed, _ in found
            for row in listed
        ]
        print_table(["attempt", "ended", "GPU-hours", "refund"], rows, empty="No attempt ended.")


def refund(
    tenant: Annotated[str, typer.Argument(help="Name of the tenant.")],
    attempt: Annotated[str, typer.Argument(help="Key of the attempt: see ft usage TENANT --attempts.")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded with your name.")],
    month: Month = "",
    bill: Annotated[bool, typer.Option("--bill", help="Bill it for good, in place of refunding it.")] = False,
) -> None:
    """Decide a flagged attempt: refund its GPU-hours, or bill them for good. The first decision stands."""
    from ft_assets.metering.ledger import Ledger, ledger_url
    from ft_assets.metering.refunds import decide_refund
    from ft_assets.metering.sync import sync
    from ft_assets.tenants import load_tenants

    store, month = open_store(), _month(month)
    found = decide_refund(store, tenant, month, attempt, refund=not bill, actor=actor(), reason=reason)
    # The metering sensor looks at this and the last month only.
    ledger = Ledger(ledger_url())
    sync(store, ledger, load_tenants(), tenant, months=[month])
    ledger.close()
    print(f"{attempt}: {found.decision}, by {found.actor} at {found.at}")


def _reports(tenant: str, month: str) -> "list[tuple[MonthReport, list[UsageRow], float]]":
    """Report, attempts and promised GPU-hours of the tenant, or of all who have any."""
    from ft_assets.metering.ledger import Ledger, ledger_url
    from ft_assets.metering.quota import taken_hours
    from ft_assets.metering.report import month_report
    from ft_assets.metering.sync import sync
    from ft_assets.metering.usage import usage_tenants
    from ft_assets.tenants import load_tenants

    store, tenants = open_store(), load_tenants()
    ledger = Ledger(ledger_url())
    found = []
    for name in [tenant] if tenant else usage_tenants(store):
        sync(store, ledger, tenants, name, months=[month])
        rows, jobs = ledger.usage_rows(name, month), ledger.job_counts(name, month)
        if rows or jobs:
            report = month_report(name, month, rows, jobs, tenants.quota_of(name), tenants.currency)
            found.append((report, rows, taken_hours(store, name, month)[1]))
    ledger.close()
    return found


def _cells(report: "MonthReport", promised: float) -> list[str]:
    ended = ", ".join(f"{count} {status}" for status, count in report.jobs.items()) or "none"
    hours = (report.gpu_hours, report.billed_hours, report.overage_hours, report.refunded_hours, report.flagged_hours)
    delivered = "" if report.success_rate is None else f"{report.success_rate:.0%}"
    return [
        report.tenant,
        ended,
        delivered,
        *(f"{each:.2f}" for each in (*hours, promised)),
        f"{report.cost:.2f} {report.currency}",
    ]


def _as_json(report: "MonthReport", rows: "list[UsageRow]", promised: float, attempts: bool) -> dict[str, Any]:
    listed = {"attempts_listed": [asdict(row) for row in rows]} if attempts else {}
    return {**asdict(report), "promised_hours": promised, **listed}


def _month(text: str) -> str:
    """``text``, or this month. Raises UserError for what is no month."""
    from ft_assets.metering.usage import month_of
    from ft_resources.errors import UserError

    if not text:
        return month_of(datetime.now(UTC))
    try:
        return month_of(datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC))
    except ValueError as error:
        raise UserError(f"{text!r} is no month", where="--month", remedy="Write it as 2026-11.") from error
