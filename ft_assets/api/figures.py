"""How much work stands and what it costs, in a few numbers for each tenant."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from ft_assets.api.defaults import store_or_default, tenants_or_default
from ft_assets.api.metering import usage
from ft_assets.control.metering.report import MonthReport
from ft_assets.control.submissions.status import State, status_of
from ft_assets.records.submissions import open_submissions
from ft_assets.settings.tenants import TenantsFile
from ft_resources.store import Store
from ft_resources.store_glance import Glance

MONTHS_KEPT_S = 900.0
"""For how long ``PlatformLook`` keeps what tenants used."""


@dataclass(frozen=True, kw_only=True)
class PlatformFigures:
    """What stands at ``at`` (seconds since 1970).

    Args:
        open: how many submissions have not ended, by tenant and state.
        waiting_s: for how long the oldest queued submission of a tenant has waited, in seconds.
        alerted: how many running trainings have raised an alert, such as that they are slow, by tenant.
        months: what each tenant used this month.
        problems: what could not be read.
    """

    at: float
    open: Mapping[tuple[str, str], int]
    waiting_s: Mapping[str, float]
    alerted: Mapping[str, int]
    months: tuple[MonthReport, ...]
    problems: tuple[str, ...]


def platform_figures(*, store: Store | None = None, tenants: TenantsFile | None = None) -> PlatformFigures:
    """The figures of all tenants. What cannot be read is named, and the rest is counted.

    Raises UserError for a tenants file that cannot be read, and where the store or the ledger does not answer.
    """
    return PlatformLook(store=store, tenants=tenants)()


class PlatformLook:
    """Called, it gives ``platform_figures``. What tenants used is counted anew every ``MONTHS_KEPT_S`` only: it takes a
    look at all their records, each server of the API looks every minute, and hours of GPUs add up slowly."""

    def __init__(
        self,
        *,
        store: Store | None = None,
        tenants: TenantsFile | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._tenants, self._clock = store, tenants, clock
        self._months: tuple[float, tuple[MonthReport, ...], tuple[str, ...]] | None = None

    def __call__(self) -> PlatformFigures:
        """Raises as ``platform_figures``."""
        store, tenants, now = store_or_default(self._store), tenants_or_default(self._tenants), time.time()
        states: Counter[tuple[str, str]] = Counter()
        alerted: Counter[str] = Counter()
        waiting: dict[str, float] = {}
        problems: list[str] = []
        glance = Glance(store)
        for submission in open_submissions(glance, problems=problems):
            status = status_of(glance, submission)
            states[submission.tenant, str(status.state)] += 1
            alerted[submission.tenant] += bool(status.alerts)
            if status.state is State.QUEUED:
                waited = now - datetime.fromisoformat(submission.created_at).timestamp()
                waiting[submission.tenant] = max(waiting.get(submission.tenant, 0.0), waited)
        months, unread = self._used(store, tenants)
        return PlatformFigures(
            at=now, open=states, waiting_s=waiting, alerted=alerted, months=months, problems=(*problems, *unread)
        )

    def _used(self, store: Store, tenants: TenantsFile) -> tuple[tuple[MonthReport, ...], tuple[str, ...]]:
        """What each tenant used this month, and what could not be read of it."""
        if self._months is None or self._clock() - self._months[0] >= MONTHS_KEPT_S:
            problems: list[str] = []
            months = tuple(each.report for each in usage(store=store, tenants=tenants, problems=problems))
            self._months = self._clock(), months, tuple(problems)
        return self._months[1:]
