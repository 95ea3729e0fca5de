"""The winning trial of a sweep: decided once per dataset content, and recorded.

The record is create-only, ``<tenant>/sweeps/<digest of dataset content and sweep recipe>.json``. So a late
trial, or code that would choose differently, never changes what an adapter was made from.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from pydantic import Field

from ft_resources.canonical import digest
from ft_resources.errors import CorruptArtifact, MissingInput, UserError
from ft_resources.outcomes import Outcome
from ft_resources.records import Record
from ft_resources.store import Store
from ft_resources.strict_model import StrictModel

# Endings that the same settings would reach again. A trial that was stopped, failed because of the platform, or
# could not read its inputs is requested again instead.
FINAL = frozenset({Outcome.DIVERGED, Outcome.OUT_OF_MEMORY, Outcome.BAD_DATA})
REFUSED = "refused"


class TrialResult(StrictModel):
    """How one trial ended: with a checkpoint and its validation loss, or with one of the platform's endings."""

    key: str = Field(description="Key of the trial's recipe.")
    number: int = Field(ge=1, description="Counted from 1.")
    values: dict[str, Any] = Field(description="What the sweep set, by dotted path.")
    address: str = Field(default="", description="Of its training; empty where it was refused before one.")
    loss: float | None = Field(default=None, description="Final validation loss; null where it is no number.")
    steps: int | None = Field(default=None, description="Optimizer steps.")
    tokens_per_s: float | None = Field(default=None, description="Training speed.")
    ending: str = Field(default="", description="Why there is no checkpoint, in a word; empty where there is one.")


class Decision(Record):
    """The trials of a sweep on one dataset content, and the winner's number; null if none can win."""

    WHAT: ClassVar[str] = "the decision of a sweep"

    sweep: str = Field(description="Key of the sweep recipe.")
    recipe_digest: str = Field(description="Digest of the stored sweep recipe.")
    dataset: str = Field(description="Dataset key that it was decided for first; equal content shares it.")
    dataset_digest: str = Field(description="Content digest of the curated dataset.")
    trials: tuple[TrialResult, ...] = Field(description="In the order of their numbers.")
    winner: int | None = Field(description="Number of the trial with the lowest validation loss.")

    @property
    def winning(self) -> TrialResult:
        """The winner. Raises SweepFailed if there is none."""
        for trial in self.trials:
            if trial.number == self.winner:
                return trial
        raise SweepFailed(self)


class SweepUndecided(MissingInput):
    """Not all trials of a sweep have ended; ``missing`` has the keys of those to train."""

    def __init__(self, dataset: str, sweep: str, missing: Sequence[str]) -> None:
        self.dataset, self.sweep, self.missing = dataset, sweep, tuple(missing)
        super().__init__("checkpoint", f"{dataset}|{sweep}")
        waits = f"these trials have no checkpoint yet: {', '.join(missing)}" if missing else "its trials have all ended"
        self.what = f"the sweep {sweep} has no winner on {dataset} yet; {waits}"
        self.where = f"pair {dataset}|{sweep}"
        trials = f"Materialize checkpoint for {dataset} and these trials (a backfill), then for {dataset}|{sweep}"
        self.remedy = (
            f"{trials if missing else 'Materialize checkpoint'}; or ask for all of it: ft run {dataset} {sweep}"
        )
        self.args = (self.what, self.where, self.remedy)


class SweepFailed(UserError):
    """No trial of a sweep can win."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        endings = "; ".join(
            f"trial {trial.number} ({trial.key}): {trial.ending or 'no validation loss'}" for trial in decision.trials
        )
        super().__init__(
            f"no trial of the sweep {decision.sweep} can win: {endings}",
            where=f"pair {decision.dataset}|{decision.sweep}",
            remedy="Register a new version of the sweep with other values, such as lower learning rates.",
        )


def choose(trials: Sequence[TrialResult]) -> int | None:
    """Number of the trial with the lowest validation loss, the first of equals; None if no trial has one."""
    able = [trial for trial in trials if not trial.ending and trial.loss is not None and math.isfinite(trial.loss)]
    return min(able, key=lambda trial: (trial.loss, trial.number)).number if able else None


def decision_path(tenant: str, dataset_digest: str, recipe_digest: str) -> str:
    """Path of a sweep's decision on a dataset content."""
    return f"{tenant}/sweeps/{digest({'dataset': dataset_digest, 'sweep': recipe_digest})}.json"


def find_decision(store: Store, path: str) -> Decision | None:
    """The decision at ``path``, or None. Raises CorruptArtifact if it cannot be read."""
    return Decision.find(store, path)


def record_decision(store: Store, path: str, decision: Decision) -> Decision:
    """Write the decision unless one exists; returns the valid one."""
    return decision.create_or_get(store, path)


def all_decisions(store: Store) -> Iterator[Decision]:
    """All decisions of all tenants, except unreadable ones."""
    for tenant in store.tenants():
        for entry in sorted(store.entries(f"{tenant}/sweeps"), key=lambda entry: entry.path):
            with suppress(CorruptArtifact):
                found = find_decision(store, entry.path)
                if found is not None:
                    yield found
