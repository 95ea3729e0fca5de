"""Open work and its cost, in a few numbers for each tenant."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from ft_assets.api.defaults import store_or_default, tenants_or_default
from ft_assets.api.metering import usage
from ft_assets.control.metering.report import MonthReport
from ft_assets.control.rollouts.judged_copies import results_on
from ft_assets.control.submissions.status import State, status_of
from ft_assets.records.submissions import open_submissions
from ft_assets.settings.tenants import TenantsFile
from ft_resources.store import Store
from ft_resources.store_glance import Glance

MONTHS_KEPT_S = 900.0
"""Seconds for which ``PlatformLook`` caches the tenants' usage."""


@dataclass(frozen=True, kw_only=True)
class PlatformFigures:
    """The figures at ``at`` (seconds since 1970).

    Args:
        open: submissions that have not ended, by tenant and state.
        waiting_s: age of a tenant's oldest queued submission, in seconds.
        alerted: running trainings with an alert, such as a slow one, by tenant.
        months: what each tenant used this month.
        judged: copied requests of rollouts that judges were asked about today (UTC), by tenant and result.
        problems: what could not be read.
    """

    at: float
    open: Mapping[tuple[str, str], int]
    waiting_s: Mapping[str, float]
    alerted: Mapping[str, int]
    months: tuple[MonthReport, ...]
    judged: Mapping[tuple[str, str], int]
    problems: tuple[str, ...]


def platform_figures(*, store: Store | None = None, tenants: TenantsFile | None = None) -> PlatformFigures:
    """The figures of all tenants. Unreadable records are named in ``problems``, and the rest is counted.

    Raises UserError for a tenants file that cannot be read, and where the store or the ledger does not answer.
    """
    return PlatformLook(store=store, tenants=tenants)()


@dataclass(frozen=True, kw_only=True)
class _Counted:
    """Figures that many records must be read for."""

    months: tuple[MonthReport, ...]
    judged: Mapping[tuple[str, str], int]
    problems: tuple[str, ...]


class PlatformLook:
    """A callable that returns ``platform_figures``. Usage is counted anew only every ``MONTHS_KEPT_S``: it needs all
    records of the tenants, each API server asks every minute, and usage grows slowly."""

    def __init__(
        self,
        *,
        store: Store | None = None,
        tenants: TenantsFile | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._tenants, self._clock = store, tenants, clock
        self._counted: tuple[float, _Counted] | None = None

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
        counted = self._count(store, tenants)
        return PlatformFigures(
            at=now,
            open=states,
            waiting_s=waiting,
            alerted=alerted,
            months=counted.months,
            judged=counted.judged,
            problems=(*problems, *counted.problems),
        )

    def _count(self, store: Store, tenants: TenantsFile) -> _Counted:
        if self._counted is None or self._clock() - self._counted[0] >= MONTHS_KEPT_S:
            problems: list[str] = []
            months = tuple(each.report for each in usage(store=store, tenants=tenants, problems=problems))
            judged = results_on(store, datetime.now(UTC).date().isoformat(), problems)
            self._counted = self._clock(), _Counted(months=months, judged=judged, problems=tuple(problems))
        return self._counted[1]
