"""The latest figures of a training for Prometheus to scrape; enabled by ``FT_METRICS_PORT``.

Each column of the step metrics is a gauge ``ft_training_<column>``, labelled with the training. Failures here are only
warnings and never end a training.
"""

import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from ft_resources.work import WorkSpec

PORT = "FT_METRICS_PORT"
_LABELS = ("tenant", "dataset", "recipe", "attempt")


class MetricsPage:
    """An HTTP server in a thread of this process, on all its addresses; ``port`` 0 takes any that is free."""

    def __init__(self, spec: WorkSpec, port: int) -> None:
        """Raises OSError and OverflowError for a port that is not available."""
        from prometheus_client import CollectorRegistry, start_http_server

        dataset, _, recipe = spec.label.partition("|")
        self._values = (spec.address.tenant, dataset, recipe, str(spec.attempt))
        # Not the default registry, which also has metrics of the process.
        self._registry, self._gauges = CollectorRegistry(), dict[str, Any]()
        self._server, self._thread = start_http_server(port, registry=self._registry)
        self.port: int = self._server.server_port

    def show(self, figures: Mapping[str, Any]) -> None:
        """Set the gauges of ``figures``; values that are not numbers are left out."""
        for name, value in figures.items():
            if isinstance(value, int | float):
                self._gauge(name).set(value)

    def show_ranks(self, seconds: Sequence[float], nodes: Sequence[str]) -> None:
        """How long each rank works by itself in a step, labelled with the rank and its node."""
        for rank, (each, node) in enumerate(zip(seconds, nodes, strict=True)):
            self._rank_seconds.labels(*self._values, str(rank), node).set(each)

    @cached_property
    def _rank_seconds(self) -> Any:
        from prometheus_client import Gauge

        words = "seconds that a rank works by itself in the newest step, before ranks exchange something"
        return Gauge("ft_training_rank_seconds", words, (*_LABELS, "rank", "node"), registry=self._registry)

    def _gauge(self, column: str) -> Any:
        if column not in self._gauges:
            from prometheus_client import Gauge

            name = f"ft_training_{re.sub(r'[^a-z0-9_]', '_', column.lower())}"
            words = f"{column} of the newest row of step metrics"
            gauge = Gauge(name, words, _LABELS, registry=self._registry)
            self._gauges[column] = gauge.labels(*self._values)
        return self._gauges[column]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def open_page(spec: WorkSpec, environment: Mapping[str, str] = os.environ) -> MetricsPage | None:
    """The page of this attempt; None if it is not enabled or not possible."""
    wanted = environment.get(PORT, "")
    if not wanted:
        return None
    try:
        page = MetricsPage(spec, int(wanted))
    except (ImportError, ValueError, OSError, OverflowError) as problem:
        print(f"warning: no metrics on port {wanted!r} ({PORT}): {problem}", flush=True)
        return None
    print(f"metrics are served on port {page.port}", flush=True)
    return page
