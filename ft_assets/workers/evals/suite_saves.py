"""A finished suite's score is saved in the attempt, so that an interrupted evaluation resumes after it.

There is one record per suite below ``saves/suites/`` of the attempt, or below ``saves/weights/<step>/`` if a suite
chose among weights. Records are create-only. A later attempt at the same address, and so with the same model, suites
and settings, reuses them. Processes that share an evaluation also learn from these records which suites are done. They
are dropped once the artifact is published, as all saves are.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ft_assets.workers.evals.selection_rule import VALIDATION_INPUT
from ft_assets.workers.suites.score import SuiteScore
from ft_resources.errors import CorruptArtifact
from ft_resources.store import Store
from ft_resources.work import WorkSpec, attempt_path

SUITES = "saves/suites"


class SavedScore(SuiteScore):
    """A score and the digest of its suite."""

    WHAT: ClassVar[str] = "a suite's saved score"

    suite: str


@dataclass(frozen=True, kw_only=True)
class SuiteSaves:
    """The saved scores of an evaluation.

    Args:
        inputs: suite key to the digest of its files.
        attempts: folders of the attempts whose saves are used; new saves go to the last.
        claims: a folder in which processes of one machine record which suite they take; None for one process.
        folder: their folder in an attempt.
    """

    store: Store
    inputs: dict[str, str]
    attempts: tuple[str, ...]
    claims: Path | None = None
    folder: str = SUITES

    @classmethod
    def of(cls, store: Store, spec: WorkSpec, claims: Path | None = None, folder: str = SUITES) -> "SuiteSaves":
        """The saved scores of a worker's attempt and of earlier attempts."""
        kinds = ("suite:", "shown:", VALIDATION_INPUT)
        inputs = {name.partition(":")[2]: ref.digest for name, ref in spec.inputs.items() if name.startswith(kinds)}
        attempts = tuple(attempt_path(spec.address, number) for number in [*spec.previous, spec.attempt])
        return cls(store=store, inputs=inputs, attempts=attempts, claims=claims, folder=folder)

    def find(self, key: str) -> SuiteScore | None:
        """The newest saved score of a suite; None if none is readable and for these files."""
        for attempt in reversed(self.attempts):
            path = f"{attempt}/{self.folder}/{key}.json"
            try:
                saved = SavedScore.find(self.store, path)
            except CorruptArtifact as error:
                # Scored again: a save only spares time.
                print(f"suite {key}: {error}", flush=True)
                continue
            if saved is not None and saved.suite == self.inputs[key]:
                return SuiteScore(**{name: value for name, value in saved if name != "suite"})
        return None

    def save(self, key: str, score: SuiteScore) -> None:
        """Save a score; an existing save of this attempt stays."""
        record = SavedScore(suite=self.inputs[key], **dict(score))
        record.create(self.store, f"{self.attempts[-1]}/{self.folder}/{key}.json")

    def claim(self, key: str) -> bool:
        """Whether this process gets to score the suite."""
        if self.claims is None:
            return True
        try:
            (self.claims / key).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Those of ``keys`` without a saved score."""
        return [key for key in keys if self.find(key) is None]
