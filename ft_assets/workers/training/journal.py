"""What a training run has recorded so far, and how often it saves and validates."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Cadence:
    """When to save (every N steps or minutes, whichever comes first) and when to validate."""

    save_steps: int
    save_minutes: float
    validate_steps: int | None


@dataclass(kw_only=True)
class Journal:
    """A run's records so far. Every save contains them except ``isolation``, which each attempt proves anew, and
    ``alerts`` and ``kept`` (steps and validation losses of kept weights), which are derived from ``rows``."""

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
