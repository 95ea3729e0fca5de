"""What a training run has to show so far, and how often it saves and validates."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Cadence:
    """When to save: after so many steps or minutes, whichever comes first; and when to validate."""

    save_steps: int
    save_minutes: float
    validate_steps: int | None


@dataclass(kw_only=True)
class Journal:
    """What a run has to show so far; it travels with every save, but for ``isolation``, which each attempt proves, and
    ``alerts`` and ``kept`` (steps and validation losses of weights kept), which follow from ``rows``."""

    ledger: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    resumed: list[dict[str, int]] = field(default_factory=list)
    position: int = 0
    seconds: float = 0.0
    isolation: dict[str, Any] = field(default_factory=dict)
    alerts: list[dict[str, Any]] = field(default_factory=list)
    kept: list[tuple[int, float]] = field(default_factory=list)

    def validated(self, step: int) -> bool:
        return any(row["step"] == step and "validation_loss" in row for row in self.rows)
