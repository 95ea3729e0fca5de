"""Admission: a submission is accepted only if its GPU-hours fit the tenant's quota for this month.

Counted against a quota: hours billed this month, and hours reserved for open submissions of any month. A reservation is
the upper bound of the estimate. It ends once the submission has ended *and* the usage of all its attempts is recorded,
so that no hour is uncounted in between.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from ft_assets.control.metering.quota_log import QuotaRecord, QuotaState, append, read_quota, release, reservation
from ft_assets.control.metering.refunds import refunded_keys
from ft_assets.control.metering.usage import billed_hours, count_usage, month_of, read_usage, uncounted
from ft_assets.settings.tenants import Quota, TenantsFile
from ft_resources.errors import UserError
from ft_resources.store import Store

# A submission is recorded milliseconds after its reservation; after this long its process must have died.
_ABANDONED = timedelta(hours=1)
_KEEPER = "quota"
_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")
# Closed logs of earlier months (store, tenant, month): no reservation is open and none will be added.
_CLOSED: set[tuple[str, str, str]] = set()


@dataclass(frozen=True, kw_only=True)
class Standing:
    """State of a submission: whether it has ended, and the partition keys of all its trainings."""

    ended: bool
    labels: frozenset[str]


# From a submission's id to its state; None if it was never recorded.
FindStanding = Callable[[str], Standing | None]


class OverQuota(UserError):
    """The submission does not fit the tenant's quota; nothing was recorded."""


def month_before(month: str) -> str:
    """YYYY-MM of the month before ``month``."""
    first = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    return month_of(first - timedelta(days=1))


def taken_hours(store: Store, tenant: str, month: str) -> tuple[float, float]:
    """GPU-hours billed in ``month``, and reserved for open submissions."""
    promised = sum(state.reserved for state in _logs(store, tenant, month))
    records = read_usage(store, tenant, month)
    if any(record.refund == "flagged" for record in records):
        refunded = refunded_keys(store, tenant, month)
        records = [record for record in records if record.refund != "flagged" or record.key not in refunded]
    return billed_hours(records), promised


def _logs(store: Store, tenant: str, month: str) -> list[QuotaState]:
    """The logs of all months with possible open reservations: a submission may wait for a person indefinitely, and
    clocks may differ."""
    found = []
    for each in store.folders(f"{tenant}/quota"):
        if not _MONTH.fullmatch(each) or (store.url, tenant, each) in _CLOSED:
            continue
        state = read_quota(store, tenant, each)
        found.append(state)
        if not state.open and each < month_before(month):
            _CLOSED.add((store.url, tenant, each))
    return found


def admit(
    store: Store,
    tenants: TenantsFile,
    tenant: str,
    submission: str,
    *,
    hours: Callable[[], float | None],
    standing: FindStanding,
    actor: str,
    now: datetime,
    promise: bool = True,
) -> list[str]:
    """Reserve a submission's GPU-hours; returns warnings. Idempotent per submission.

    Args:
        hours: upper bound of its GPU-hours; None if it cannot be estimated. Called only for tenants with a quota.
        standing: looks up a submission's state by id.
        promise: False only asks whether there is room now.

    Raises OverQuota, with nothing written, if it exceeds the hard quota or cannot be estimated.
    """
    quota = tenants.quota_of(tenant)
    if quota.soft_gpu_hours is None and quota.hard_gpu_hours is None:
        return []
    wanted, month = hours(), month_of(now)
    if wanted is None:
        if quota.hard_gpu_hours is None:
            return []
        raise OverQuota(
            f"{tenant} has a quota of {quota.hard_gpu_hours:g} GPU-hours per month, and the GPU-hours of this "
            "training cannot be estimated",
            where=_where(tenant),
            remedy="Name a known GPU type in hardware.gpu_type, in a new recipe version.",
        )
    release_ended(store, tenants, tenant, standing, now=now)
    warnings: list[str] = []

    def decide(state: QuotaState) -> QuotaRecord | None:
        warnings.clear()
        if submission in state.open:
            return None
        billed, promised = taken_hours(store, tenant, month)
        warnings.extend(_judge(tenant, quota, wanted, billed, promised, month))
        if not promise:
            return None
        return reservation(state, submission, wanted, actor=actor, at=now.isoformat(timespec="milliseconds"))

    if wanted > 0:
        append(store, tenant, month, decide=decide)
    return warnings


def release_ended(
    store: Store, tenants: TenantsFile, tenant: str, standing: FindStanding, *, now: datetime
) -> list[str]:
    """End the reservations of submissions that have ended and whose usage is recorded; returns their ids.

    A reservation whose submission was never recorded ends after an hour: its process died in between.
    """
    released: list[str] = []
    states = _logs(store, tenant, month_of(now))
    if not any(state.open for state in states):
        return []
    count_usage(store, tenants, tenant=tenant)
    running = set(uncounted(store, tenant))
    at = now.isoformat(timespec="milliseconds")
    for state in states:
        for submission in state.open:
            found = standing(submission)
            if found is None:
                over = _abandoned(store, state, submission, now)
            else:
                over = found.ended and not found.labels & running
            if over:
                append(store, tenant, state.month, decide=partial(release, submission=submission, actor=_KEEPER, at=at))
                released.append(submission)
    return released


def _judge(tenant: str, quota: Quota, wanted: float, billed: float, promised: float, month: str) -> list[str]:
    """Warnings. Raises OverQuota if there is no room."""
    after = billed + promised + wanted
    so_far = f"{billed:.2f} are used and {promised:.2f} reserved in {month}"
    if quota.hard_gpu_hours is not None and after > quota.hard_gpu_hours:
        raise OverQuota(
            f"this may take up to {wanted:.2f} GPU-hours; of {tenant}'s {quota.hard_gpu_hours:g} per month {so_far}",
            where=_where(tenant),
            remedy="Wait for running work or for the next month, train less (epochs, max_steps, a smaller dataset), or "
            "ask the platform for a larger hard_gpu_hours.",
        )
    if quota.soft_gpu_hours is not None and after > quota.soft_gpu_hours:
        beyond = min(wanted, after - quota.soft_gpu_hours)
        return [
            f"up to {beyond:.2f} GPU-hours of this are overage, at {quota.overage_factor:g} times the price: "
            f"of {tenant}'s {quota.soft_gpu_hours:g} per month {so_far}"
        ]
    return []


def _abandoned(store: Store, state: QuotaState, submission: str, now: datetime) -> bool:
    """Whether the reservation is so old that its submission would be recorded by now."""
    for seq in range(state.seq, 0, -1):
        record = QuotaRecord.get(store, f"{state.tenant}/quota/{state.month}/{seq:06d}.json")
        if record.kind == "reserve" and record.submission == submission:
            return now - datetime.fromisoformat(record.at) > _ABANDONED
    return False


def _where(tenant: str) -> str:
    return f"tenants.yaml: quota of {tenant}"
