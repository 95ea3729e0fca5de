"""What stands on the platform, in Prometheus's form."""

import logging
import threading
import time
from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from ft_assets.api import PlatformFigures

_LOG = logging.getLogger(__name__)
_EVERY_S = 60.0


class PlatformMetrics:
    """Metrics of what ``look`` gives, which is asked in a thread of its own every ``every_s`` seconds: a scrape waits
    for no store. Nothing is told before the first look, and after a failed one the last stays, with its time."""

    def __init__(self, look: Callable[[], PlatformFigures], *, every_s: float = _EVERY_S) -> None:
        self._look, self._every_s = look, every_s
        self._last: PlatformFigures | None = None
        self._failed = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="platform-metrics", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End after the look under way."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            self.look()
            self._ended.wait(self._every_s)

    def look(self) -> None:
        """Look once."""
        began = time.monotonic()
        try:
            found = self._look()
            known = self._last.problems if self._last else ()
            for problem in found.problems:
                if problem not in known:
                    _LOG.warning("unreadable: %s", problem)
            self._last = found
        except Exception:
            # Whatever it was, the last figures stay, and their age raises an alert.
            self._failed += 1
            _LOG.exception("The platform's figures were not read, after %.1f s.", time.monotonic() - began)

    def collect(self) -> Iterator[Metric]:
        """Prometheus's metrics."""
        yield GaugeMetricFamily("ft_platform_failed_looks", "Looks at the store that failed.", self._failed)
        if self._last is not None:
            yield from _metrics(self._last)


def _metrics(found: PlatformFigures) -> Iterator[Metric]:
    yield GaugeMetricFamily("ft_platform_looked_at_seconds", "When the store was looked at.", found.at)
    yield GaugeMetricFamily("ft_platform_unreadable_records", "Records that are corrupt.", len(found.problems))
    states = GaugeMetricFamily("ft_submissions_open", "Submissions that have not ended.", labels=("tenant", "state"))
    for (tenant, state), count in found.open.items():
        states.add_metric((tenant, state), count)
    waiting = GaugeMetricFamily(
        "ft_submissions_oldest_queued_seconds", "Age of the oldest queued submission.", labels=("tenant",)
    )
    for tenant, seconds in found.waiting_s.items():
        waiting.add_metric((tenant,), seconds)
    alerted = GaugeMetricFamily("ft_trainings_alerted", "Running trainings with an alert.", labels=("tenant",))
    for tenant, count in found.alerted.items():
        alerted.add_metric((tenant,), count)
    judged = GaugeMetricFamily(
        "ft_day_verdicts",
        "Copied requests that judges of rollouts were asked about today (UTC), by result.",
        labels=("tenant", "result"),
    )
    for (tenant, result), count in found.judged.items():
        judged.add_metric((tenant, result), count)
    yield from (states, waiting, alerted, judged)
    yield from _months(found)


def _months(found: PlatformFigures) -> Iterator[Metric]:
    jobs = GaugeMetricFamily(
        "ft_month_jobs", "Submissions that ended this month (UTC), by outcome.", labels=("tenant", "outcome")
    )
    seconds = GaugeMetricFamily("ft_month_gpu_seconds", "GPU time of this month, by kind.", labels=("tenant", "kind"))
    cost = GaugeMetricFamily("ft_month_cost", "What this month costs.", labels=("tenant", "currency"))
    for month in found.months:
        for outcome, count in month.jobs.items():
            jobs.add_metric((month.tenant, outcome), count)
        for kind, hours in (
            ("billed", month.billed_hours),
            ("refunded", month.refunded_hours),
            ("flagged", month.flagged_hours),
            ("overage", month.overage_hours),
        ):
            seconds.add_metric((month.tenant, kind), hours * 3600.0)
        cost.add_metric((month.tenant, month.currency), month.cost)
    yield from (jobs, seconds, cost)
