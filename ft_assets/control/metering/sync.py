"""Fills the ledger from the store: what is there and not in it is inserted, so nothing is missed or doubled."""

from datetime import UTC, datetime

from ft_assets.metering.ledger import Ledger
from ft_assets.metering.quota import month_before
from ft_assets.metering.refunds import RefundDecision, refunds_folder
from ft_assets.metering.usage import UsageRecord, count_usage, month_of, usage_folder
from ft_assets.submissions.record import find_outcome, find_submission
from ft_assets.tenants import TenantsFile
from ft_resources.records import Record, find_record
from ft_resources.store import Store


def sync(store: Store, ledger: Ledger, tenants: TenantsFile, tenant: str, *, months: list[str] | None = None) -> int:
    """Bring a tenant's rows up to the store, of this month and the last where none are named; how many were missing."""
    count_usage(store, tenants, tenant=tenant)
    added = 0
    for month in months or recent_months():
        used, decided = ledger.keys(tenant, month)
        records = _missing(store, usage_folder(tenant, month), used, UsageRecord, "the usage record")
        ledger.add_usage(records)
        decisions = _missing(store, refunds_folder(tenant, month), decided, RefundDecision, "the refund's record")
        ledger.add_refunds(tenant, decisions)
        added += len(records) + len(decisions)
    return added + _sync_jobs(store, ledger, tenant)


def recent_months() -> list[str]:
    """The last month and this one, UTC."""
    now = month_of(datetime.now(UTC))
    return [month_before(now), now]


def months_of(store: Store, tenant: str) -> list[str]:
    """Months in which a tenant has usage."""
    return store.folders(f"{tenant}/usage")


def _missing(store: Store, folder: str, present: set[str], kind: type[Record], what: str) -> list[Record]:
    names = (entry.path for entry in store.entries(folder))
    wanted = sorted(path for path in names if path.rsplit("/", 1)[-1].removesuffix(".json") not in present)
    found = (find_record(store, path, kind, what) for path in wanted)
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
