"""Requests that were copied to a rollout's candidate, in Prometheus's form."""

from typing import Literal

from prometheus_client import CollectorRegistry, Counter

Result = Literal["answered", "failed", "busy", "dropped"]


class ShadowFigures:
    """Figures of one server: copies by what became of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._copies = Counter(
            "ft_shadow_copies", "Requests copied to a rollout's candidate, by result.", ("result",), registry=registry
        )

    def add(self, result: Result) -> None:
        """Count a copy: ``busy`` was refused by servers that had no room or were not there yet, ``dropped`` was never
        asked."""
        self._copies.labels(result).inc()
