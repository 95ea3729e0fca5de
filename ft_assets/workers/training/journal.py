"""What a training run has recorded so far, and how often it saves and validates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NOT_FINITE = "validation_not_finite"
"""Column in place of a validation loss that is not finite, and the fact with the steps of such validations."""


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
        return any(row["step"] == step and ("validation_loss" in row or NOT_FINITE in row) for row in self.rows)

    @property
    def not_finite(self) -> list[int]:
        """Steps after which the validation loss was not finite."""
        return [row["step"] for row in self.rows if NOT_FINITE in row]


def ends_not_finite(facts: Mapping[str, Any]) -> bool:
    """Whether a checkpoint's last validation loss was not finite, from its facts."""
    return facts.get("steps") in facts.get(NOT_FINITE, [])
