"""The figures of a job, from the records of its work: its training's last step, its times, its checkpoint, its cost."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ft_assets.api.defaults import store_or_default, tenants_or_default
from ft_assets.api.job_states import JobState
from ft_assets.api.jobs import job_work
from ft_assets.control.metering.refunds import refunded_keys
from ft_assets.control.metering.usage import usage_of
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.submissions.status import State, status_of
from ft_assets.control.submissions.works import Work
from ft_assets.records.submissions import open_of_tenant
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.training.saves import newest_place
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.store import Store

# The last row may be that of a validation, which has none of them.
_FIGURES = ("loss", "grad_norm", "tokens_per_s")


@dataclass(frozen=True, kw_only=True)
class JobFigures:
    """Figures of a job now; None where there is nothing yet.

    Args:
        method: what is trained and how, by the name that a request has for it.
        base: sha256 over the files of its base.
        step: of its training, with ``loss``, ``grad_norm`` and ``tokens_per_s`` as they were last told.
        starts_at: when its work began, or is expected to; seconds since the epoch, as is ``ends_at``.
        saving: whether the worker of a paused job still saves.
        checkpoint: URL of the trained weights, or of the last save of a training that has not ended.
        gpu_hours: that its attempts are billed for so far.
        cost: of these, in ``currency``.
    """

    method: str | None = None
    base: str | None = None
    step: int | None = None
    loss: float | None = None
    grad_norm: float | None = None
    tokens_per_s: float | None = None
    starts_at: float | None = None
    ends_at: float | None = None
    saving: bool = False
    checkpoint: str | None = None
    gpu_hours: float | None = None
    cost: float | None = None
    currency: str


def figures_of_job(state: JobState, *, store: Store | None = None, tenants: TenantsFile | None = None) -> JobFigures:
    """The figures of a job. Raises UserError for records that cannot be read."""
    store, tenants, now = store_or_default(store), tenants_or_default(tenants), time.time()
    settled = state.settled
    if settled is None or not settled.submission:
        return JobFigures(currency=tenants.currency, starts_at=now if settled is None else None)
    found, stored = job_work(state, store=store), get_recipe(store, settled.recipe)
    training = next((work for work in found.works if work.asset == "checkpoint" and not work.trial), Work(asset=""))
    rows = found.steps
    told = {name: next((row[name] for row in reversed(rows) if name in row), None) for name in _FIGURES}
    hours, cost = _used(store, tenants, state, found.works, now)
    starts_at = _starts_at(store, tenants, state, found.works, now)
    return JobFigures(
        method=stored.recipe.variant.replace("full", "sft") if stored.recipe.method == "sft" else stored.recipe.method,
        base=stored.lock.digest,
        step=max((row["step"] for row in rows), default=None),
        **told,
        starts_at=starts_at,
        ends_at=_ends_at(state, starts_at, now),
        saving=state.status is not None and state.status.state is State.PAUSED and any(w.running for w in found.works),
        checkpoint=_checkpoint(store, training),
        gpu_hours=hours,
        cost=cost,
        currency=tenants.currency,
    )


def _starts_at(store: Store, tenants: TenantsFile, state: JobState, works: Iterable[Work], now: float) -> float | None:
    """When the job began; of one that waits, when it is expected to: at once, or once so many of the tenant's earlier
    trainings have ended as its limit wants, by their workers' own estimates."""
    assert state.settled is not None
    since = state.settled.at
    began = [work.claimed_at for work in works if work.attempt and work.claimed_at >= since]
    if began or state.outcome is not None:
        return min(began, default=since)
    if state.status is None or state.status.state is not State.QUEUED:
        return since
    earlier = [each for each in open_of_tenant(store, state.job.tenant) if each.created_at < state.status.created_at]
    limit = tenants.quota_of(state.job.tenant).concurrent
    if limit is None or len(earlier) < limit:
        return now
    left = sorted(eta for each in earlier if (eta := status_of(store, each).eta_s) is not None)
    ends_before = len(earlier) - limit
    return now + left[ends_before] if ends_before < len(left) else None


def _ends_at(state: JobState, starts_at: float | None, now: float) -> float | None:
    """When it ended; else when it is expected to, by its worker, or by the estimate that it was asked for with."""
    if state.outcome is not None:
        return datetime.fromisoformat(state.outcome.at).timestamp()
    if state.status is not None and state.status.eta_s is not None:
        return now + state.status.eta_s
    assert state.settled is not None
    if starts_at is None or state.settled.seconds is None:
        return None
    return max(now, starts_at + state.settled.seconds)


def _checkpoint(store: Store, training: Work) -> str | None:
    if training.address is None:
        return None
    if training.done:
        return store.url_of(training.address.path)
    place = newest_place(store, training.address, range(1, training.attempt + 1))
    return store.url_of(place) if place else None


def _used(
    store: Store, tenants: TenantsFile, state: JobState, works: Iterable[Work], now: float
) -> tuple[float | None, float | None]:
    """Billed GPU-hours and their cost of the attempts since the job was created; None before the first."""
    assert state.settled is not None
    label = f"{state.settled.dataset}|{state.settled.recipe}"
    records = []
    for attempt in _attempts(store, works, state.job.created_at):
        used = usage_of(store, attempt, label, state.job.actor, tenants, now=now)
        records += [used] if used else []
    if not records:
        return None, None
    refunded = {
        key for month in {each.month for each in records} for key in refunded_keys(store, state.job.tenant, month)
    }
    hours = [0.0 if each.key in refunded else each.billed_hours for each in records]
    return sum(hours), sum(each * record.price for each, record in zip(hours, records, strict=True))


def _attempts(store: Store, works: Iterable[Work], since: float) -> Iterable[Attempt]:
    for work in works:
        if work.address is not None and work.attempt:
            yield from (each for each in attempts_at(store, work.address) if each.claimed_at() >= since)
