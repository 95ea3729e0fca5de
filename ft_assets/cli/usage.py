"""``ft usage``: what tenants used and pay, month by month. ``ft refund``: the decisions on flagged attempts."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ft_assets.cli.door import api

if TYPE_CHECKING:
    from ft_assets.api import Usage

Month = Annotated[str, typer.Option(help="YYYY-MM, UTC. Default: this month.")]


def usage(
    tenant: Annotated[str, typer.Argument(help="Name of the tenant. Default: all tenants.")] = "",
    month: Month = "",
    attempts: Annotated[bool, typer.Option("--attempts", help="List every attempt.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the monthly report: jobs, GPU-hours, success rate, cost, and GPU-hours reserved for unfinished work."""
    from ft_assets.cli.output import print_json, print_table

    found = api.usage(tenant, month=month)
    if as_json:
        print_json([_as_json(each, attempts) for each in found])
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
    print_table(columns, [_cells(each) for each in found], empty="There is no usage.")
    if attempts:
        rows = [
            [row.key, row.outcome, f"{row.gpu_hours:.4f}", row.decision or row.refund]
            for each in found
            for row in each.attempts
        ]
        print_table(["attempt", "ended", "GPU-hours", "refund"], rows, empty="No attempt ended.")


def refund(
    tenant: Annotated[str, typer.Argument(help="Name of the tenant.")],
    attempt: Annotated[str, typer.Argument(help="Key of the attempt: see ft usage TENANT --attempts.")],
    reason: Annotated[str, typer.Option(help="Reason (recorded with your name).")],
    month: Month = "",
    bill: Annotated[bool, typer.Option("--bill", help="Bill the attempt permanently instead of refunding it.")] = False,
) -> None:
    """Decide a flagged attempt: refund its GPU-hours, or bill them permanently. The first decision is final."""
    found = api.refund(tenant, attempt, reason=reason, month=month, bill=bill)
    print(f"{attempt}: {found.decision}, by {found.actor} at {found.at}")


def _cells(usage: "Usage") -> list[str]:
    report, promised = usage.report, usage.promised
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


def _as_json(usage: "Usage", attempts: bool) -> dict[str, Any]:
    listed = {"attempts_listed": [asdict(row) for row in usage.attempts]} if attempts else {}
    return {**asdict(usage.report), "promised_hours": usage.promised, **listed}
