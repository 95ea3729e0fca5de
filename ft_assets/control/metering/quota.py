"""Admission: a submission is accepted only where its GPU-hours still fit what the tenant may use this month.

What counts against a quota: hours billed this month, and hours promised to submissions that have not ended, of whatever
month. The promise is the upper bound of the estimate. It ends when the submission has ended *and* all that
its attempts used is counted, so nothing is ever free in between.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from ft_assets.metering.quota_log import QuotaRecord, QuotaState, append, read_quota, release, reservation
from ft_assets.metering.refunds import refunded_keys
from ft_assets.metering.usage import billed_hours, count_usage, month_of, read_usage, uncounted
from ft_assets.tenants import Quota, TenantsFile
from ft_resources.errors import UserError
from ft_resources.store import Store

# Between a promise and the record of its submission lie milliseconds; after this long whoever made it is dead.
_ABANDONED = timedelta(hours=1)
_KEEPER = "quota"
_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")
# Store, tenant and month of logs before last month's in which nothing is open: nobody promises there any more.
_CLOSED: set[tuple[str, str, str]] = set()


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a submission stands: whether it has ended, and the partition keys of all that is trained for it."""

    ended: bool
    labels: frozenset[str]


# Of a submission's id; None for one that was never recorded.
FindStanding = Callable[[str], Standing | None]


class OverQuota(UserError):
    """A submission that the tenant's quota has no room for; nothing of it was recorded."""


def month_before(month: str) -> str:
    """YYYY-MM of the month before ``month``."""
    first = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    return month_of(first - timedelta(days=1))


def taken_hours(store: Store, tenant: str, month: str) -> tuple[float, float]:
    """GPU-hours billed in ``month``, and promised to what has not ended."""
    promised = sum(state.reserved for state in _logs(store, tenant, month))
    records = read_usage(store, tenant, month)
    if any(record.refund == "flagged" for record in records):
        refunded = refunded_keys(store, tenant, month)
        records = [record for record in records if record.refund != "flagged" or record.key not in refunded]
    return billed_hours(records), promised


def _logs(store: Store, tenant: str, month: str) -> list[QuotaState]:
    """The logs of all months in which something may be open: a submission may wait for a person for as long as that
    takes, and a clock may be behind another."""
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
    """Promise a submission its GPU-hours; sentences of warning. Promising again to the same one changes nothing.

    Args:
        hours: the most GPU-hours that it is expected to take; None where nothing can be said. Called only where the
            tenant has a quota.
        standing: how the submission with an id stands.
        promise: False to ask only whether there is room now.

    Raises OverQuota, with nothing written, where the hard quota has no room for it or it cannot be estimated.
    """
    quota = tenants.quota_of(tenant)
    if quota.soft_gpu_hours is None and quota.hard_gpu_hours is None:
        return []
    wanted, month = hours(), month_of(now)
    if wanted is None:
        if quota.hard_gpu_hours is None:
            return []
        raise OverQuota(
            f"{tenant} has a quota of {quota.hard_gpu_hours:g} GPU-hours a month, and nothing can be said of what this "
            "training takes",
            where=_where(tenant),
            remedy="Name a GPU type in hardware.gpu_type that the platform knows, in a new recipe version.",
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
    """End the promises to submissions that have ended and whose usage is counted; their ids.

    A promise whose submission was never recorded ends after an hour: whoever made it died in between.
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
    """Sentences of warning. Raises OverQuota where there is no room."""
    after = billed + promised + wanted
    so_far = f"{billed:.2f} are used and {promised:.2f} promised in {month}"
    if quota.hard_gpu_hours is not None and after > quota.hard_gpu_hours:
        raise OverQuota(
            f"this would take up to {wanted:.2f} GPU-hours; of {tenant}'s {quota.hard_gpu_hours:g} a month {so_far}",
            where=_where(tenant),
            remedy="Wait for what runs or for the next month, train less (epochs, max_steps, a smaller dataset), or "
            "ask the platform for a larger hard_gpu_hours.",
        )
    if quota.soft_gpu_hours is not None and after > quota.soft_gpu_hours:
        beyond = min(wanted, after - quota.soft_gpu_hours)
        return [
            f"up to {beyond:.2f} GPU-hours of this are overage at {quota.overage_factor:g} times the price: "
            f"of {tenant}'s {quota.soft_gpu_hours:g} a month {so_far}"
        ]
    return []


def _abandoned(store: Store, state: QuotaState, submission: str, now: datetime) -> bool:
    """Whether the promise was made so long ago that its submission would be there, had it come to that."""
    for seq in range(state.seq, 0, -1):
        record = QuotaRecord.model_validate(store.get_json(f"{state.tenant}/quota/{state.month}/{seq:06d}.json"))
        if record.kind == "reserve" and record.submission == submission:
            return now - datetime.fromisoformat(record.at) > _ABANDONED
    return False


def _where(tenant: str) -> str:
    return f"tenants.yaml: quota of {tenant}"
