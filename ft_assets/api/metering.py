"""Metering: tenants' monthly usage and cost, refund decisions on flagged attempts, and the counting."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from ft_assets.api.defaults import actor_or_user, store_or_default, tenants_or_default
from ft_assets.api.steps import Step
from ft_assets.control.metering.ledger import Ledger, UsageRow, ledger_url
from ft_assets.control.metering.quota import release_ended, taken_hours
from ft_assets.control.metering.refunds import RefundDecision, decide_refund
from ft_assets.control.metering.report import MonthReport, month_report
from ft_assets.control.metering.sync import recent_months, sync
from ft_assets.control.metering.usage import count_usage, month_of
from ft_assets.control.submissions.admission import standing_of
from ft_assets.settings.tenants import TenantsFile
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class Usage:
    """A tenant's month, its attempts, and the GPU-hours reserved for open submissions."""

    report: MonthReport
    attempts: tuple[UsageRow, ...]
    promised: float


def usage(
    tenant: str = "",
    *,
    month: str = "",
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    problems: list[str] | None = None,
) -> list[Usage]:
    """The month (``2026-11``, UTC; this one where not given) of a tenant, or of all who used anything.

    Raises UserError for what is no month. A tenant with an unreadable record is left out, and reported in ``problems``
    if given; otherwise CorruptArtifact is raised.
    """
    store, month, tenants = store_or_default(store), _month(month), tenants_or_default(tenants)
    ledger, found = Ledger(ledger_url()), []
    try:
        for name in [tenant] if tenant else store.tenants():
            try:
                one = _usage_of(store, ledger, tenants, name, month)
            except CorruptArtifact as error:
                if problems is None:
                    raise
                problems.append(f"{error.where}: {error.what}")
                continue
            found += [one] if one else []
    finally:
        ledger.close()
    return found


def _usage_of(store: Store, ledger: Ledger, tenants: TenantsFile, tenant: str, month: str) -> Usage | None:
    """A tenant's month; None if nothing was used."""
    sync(store, ledger, tenants, tenant, months=[month])
    rows, jobs = ledger.usage_rows(tenant, month), ledger.job_counts(tenant, month)
    if not (rows or jobs):
        return None
    report = month_report(tenant, month, rows, jobs, tenants.quota_of(tenant), tenants.currency)
    return Usage(report=report, attempts=tuple(rows), promised=taken_hours(store, tenant, month)[1])


def refund(
    tenant: str,
    attempt: str,
    *,
    reason: str,
    month: str = "",
    bill: bool = False,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
) -> RefundDecision:
    """Decide a flagged attempt: refund its GPU-hours, or ``bill`` them permanently. The first decision stands.

    ``attempt`` is its key, as ``usage`` lists it. Raises UserError where there is no such attempt, where it was not
    flagged, where somebody decided otherwise before, and for what is no month.
    """
    store, month = store_or_default(store), _month(month)
    found = decide_refund(store, tenant, month, attempt, refund=not bill, actor=actor_or_user(actor), reason=reason)
    # The metering sensor checks only this and the last month.
    ledger = Ledger(ledger_url())
    sync(store, ledger, tenants_or_default(tenants), tenant, months=[month])
    ledger.close()
    return found


def meter(*, after: str = "", most: int = 25, store: Store | None = None, tenants: TenantsFile | None = None) -> Step:
    """Count what ended attempts used, end the promises of ended submissions, and bring the ledger up to both.

    Beside tenants with new usage, ``most`` of those beyond ``after`` are looked at. What cannot be read of one tenant
    is named, and the rest goes on. Raises UserError for a tenants file that cannot be read, and where the ledger does
    not answer.
    """
    store, tenants = store_or_default(store), tenants_or_default(tenants)
    problems: list[str] = []
    counted = count_usage(store, tenants, problems=problems)
    ledger, rows, released = Ledger(ledger_url()), 0, 0
    try:
        batch = [name for name in store.tenants() if name > after][:most]
        for name in sorted({*batch, *(record.tenant for record in counted)}):
            late = {record.month for record in counted if record.tenant == name}
            standing = partial(standing_of, store, name)
            try:
                rows += sync(store, ledger, tenants, name, months=sorted({*recent_months(), *late}))
                released += len(release_ended(store, tenants, name, standing, now=datetime.now(UTC)))
            except UserError as error:
                problems.append(f"{name}: {error.what}")
    finally:
        ledger.close()
    text = f"counted {len(counted)} attempts; checked {len(batch)} tenants: {rows} rows added"
    return Step(
        said="; ".join([f"{text}, {released} reservations ended", *problems]),
        worked=len(counted) + rows + released,
        after=batch[-1] if len(batch) == most else "",
    )


def _month(text: str) -> str:
    """``text``, or this month. Raises UserError for what is no month."""
    if not text:
        return month_of(datetime.now(UTC))
    try:
        return month_of(datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC))
    except ValueError as error:
        raise UserError(f"{text!r} is not a month", where="month", remedy="Write it as 2026-11.") from error
