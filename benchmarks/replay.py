"""A week of submissions replayed through admission: does anybody ever get more than the quota has?

``quota_violations`` counts moments at which a tenant's billed and promised GPU-hours exceed its hard quota. Nothing
here takes more than was promised for it: what an estimate is worth is another question.
"""

import random
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ft_assets.control.metering.quota import OverQuota, Standing, admit, release_ended, taken_hours
from ft_assets.control.metering.usage import UsageRecord, month_of
from ft_assets.settings.tenants import Quota, Tenant, TenantsFile
from ft_resources.canonical import canonical_json
from ft_resources.store import Store

_SUBMISSIONS, _TENANTS, _SEED = 1000, 30, 20261122
_START = datetime(2026, 11, 16, tzinfo=UTC)
# Scripts ask for many at once; each burst is asked by so many threads together.
_BURST = 8


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One submission of the week: the upper bound of its estimate, and what it will take."""

    id: str
    tenant: str
    at: datetime
    promised: float
    taken: float
    lasts: timedelta
    refunded: bool


class Week:
    """The replay: simulated time, real records."""

    def __init__(self, store: Store, tenants: TenantsFile) -> None:
        self.store, self.tenants = store, tenants
        self.running: dict[str, Asked] = {}
        self.ended: set[str] = set()
        self.counts: dict[str, int] = defaultdict(int)

    def ask(self, each: Asked) -> None:
        """Ask for one submission, and judge the answer by what is in the store around it."""
        try:
            admit(
                self.store,
                self.tenants,
                each.tenant,
                each.id,
                hours=lambda: each.promised,
                standing=self.standing,
                actor="replay",
                now=each.at,
            )
        except OverQuota:
            self.counts["refused"] += 1
            return
        self.counts["accepted"] += 1
        self.running[each.id] = each

    def standing(self, submission: str) -> Standing:
        return Standing(ended=submission in self.ended, labels=frozenset())

    def end_until(self, now: datetime) -> None:
        """Count and end what is over by ``now``."""
        for each in [each for each in self.running.values() if each.at + each.lasts <= now]:
            record = _usage(each)
            self.store.create(record.path, canonical_json(record.model_dump(mode="json")))
            self.ended.add(each.id)
            del self.running[each.id]
            release_ended(self.store, self.tenants, each.tenant, self.standing, now=now)

    def look(self, now: datetime) -> None:
        """Count the tenants that have more than they may."""
        for tenant in self.tenants.tenants:
            hard = self.tenants.quota_of(tenant).hard_gpu_hours
            assert hard is not None
            billed, promised = taken_hours(self.store, tenant, month_of(now))
            self.counts["violations"] += billed + promised > hard + 1e-6


def replay() -> dict[str, Any]:
    """Run the week; how many were accepted and refused, and how often a quota was broken."""
    draw = random.Random(_SEED)
    names = [f"tenant-{number:02d}" for number in range(_TENANTS)]
    quotas = {name: Tenant(quota=Quota(hard_gpu_hours=draw.choice([20.0, 80.0, 300.0]))) for name in names}
    with tempfile.TemporaryDirectory(prefix="ft-replay-") as folder:
        week = Week(Store(folder), TenantsFile(tenants=quotas))
        asked = sorted((_draw(draw, number, names) for number in range(_SUBMISSIONS)), key=lambda each: each.at)
        with ThreadPoolExecutor(_BURST) as pool:
            for start in range(0, len(asked), _BURST):
                burst = asked[start : start + _BURST]
                week.end_until(burst[0].at)
                list(pool.map(week.ask, burst))
                week.look(burst[-1].at)
        return {
            "quota_violations": week.counts["violations"],
            "replayed_submissions": len(asked),
            "replayed_accepted": week.counts["accepted"],
            "replayed_refused": week.counts["refused"],
        }


def _draw(draw: random.Random, number: int, names: list[str]) -> Asked:
    """A submission: few tenants ask for most, most trainings are short, one in ten is refunded."""
    tenant = names[min(int(draw.paretovariate(0.9)) - 1, len(names) - 1)]
    promised = min(50.0, draw.lognormvariate(0.5, 1.0))
    taken = promised * draw.uniform(0.3, 1.0)
    return Asked(
        id=f"{number:016x}",
        tenant=tenant,
        at=_START + timedelta(days=7 * draw.random()),
        promised=promised,
        taken=taken,
        lasts=timedelta(hours=taken / 8 + draw.expovariate(0.5)),
        refunded=draw.random() < 0.1,
    )


def _usage(each: Asked) -> UsageRecord:
    end = (each.at + each.lasts).timestamp()
    return UsageRecord(
        key=f"checkpoint.{each.id}.0001",
        tenant=each.tenant,
        asset="checkpoint",
        label=f"{each.tenant}.a.v1|r.v1",
        actor="replay",
        started_at=end - each.taken * 3600 / 8,
        ended_at=end,
        gpus=8,
        gpu_type="H100",
        outcome="preempted" if each.refunded else "done",
        refund="full" if each.refunded else "none",
        price=1.0,
        currency="USD",
        evidence={},
    )
