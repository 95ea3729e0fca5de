"""Fill the ledger from the store: missing records are inserted, so nothing is lost or counted twice."""

from datetime import UTC, datetime
from typing import TypeVar

from ft_assets.control.metering.ledger import Ledger
from ft_assets.control.metering.quota import month_before
from ft_assets.control.metering.refunds import RefundDecision, refunds_folder
from ft_assets.control.metering.usage import UsageRecord, count_usage, month_of, usage_folder
from ft_assets.records.submissions import find_outcome, find_submission
from ft_assets.settings.tenants import TenantsFile
from ft_resources.records import Record
from ft_resources.store import Store

R = TypeVar("R", bound=Record)


def sync(store: Store, ledger: Ledger, tenants: TenantsFile, tenant: str, *, months: list[str] | None = None) -> int:
    """Insert a tenant's missing rows (by default of this month and the last); returns how many were missing."""
    count_usage(store, tenants, tenant=tenant)
    added = 0
    for month in months or recent_months():
        used, decided = ledger.keys(tenant, month)
        records = _missing(store, usage_folder(tenant, month), used, UsageRecord)
        ledger.add_usage(records)
        decisions = _missing(store, refunds_folder(tenant, month), decided, RefundDecision)
        ledger.add_refunds(tenant, decisions)
        added += len(records) + len(decisions)
    return added + _sync_jobs(store, ledger, tenant)


def recent_months() -> list[str]:
    """The last month and this one, UTC."""
    now = month_of(datetime.now(UTC))
    return [month_before(now), now]


def _missing(store: Store, folder: str, present: set[str], kind: type[R]) -> list[R]:
    names = (entry.path for entry in store.entries(folder))
    wanted = sorted(path for path in names if path.rsplit("/", 1)[-1].removesuffix(".json") not in present)
    found = (kind.find(store, path) for path in wanted)
    return [record for record in found if record is not None]


def _sync_jobs(store: Store, ledger: Ledger, tenant: str) -> int:
    there = ledger.submissions(tenant)
    paths = (entry.path for entry in store.entries(f"{tenant}/submissions"))
    ids = {path.split("/")[2] for path in paths if path.endswith("/outcome.json")} - there
    ended = []
    for submission_id in sorted(ids):
        submission = find_submission(store, tenant, submission_id)
        outcome = find_outcome(store, submission) if submission else None
        if submission and outcome:
            ended.append((submission, outcome))
    ledger.add_jobs(ended)
    return len(ended)
