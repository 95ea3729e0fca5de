"""A suite's score is saved in the attempt when it is there, so that an interrupted evaluation goes on behind it.

One record for each suite below ``saves/suites/`` of the attempt, or where a suite chose among weights below
``saves/weights/<step>/``, create-only. A later attempt at the same address, and
so with the same model, suites and settings, takes it up. Processes that share an evaluation tell each other through
the same records which suites are done. With the artifact published they are dropped, as all saves are.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ft_assets.evals.choice import VALIDATION_INPUT
from ft_assets.evals.score import Said, SuiteScore
from ft_resources.errors import CorruptArtifact
from ft_resources.records import find_record
from ft_resources.store import Store
from ft_resources.work import WorkSpec, attempt_path

SUITES = "saves/suites"


class SavedScore(BaseModel):
    """A score and the digest of the suite that it is of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    suite: str
    metric: str
    value: float = Field(allow_inf_nan=False)
    n: int
    correct: list[float]
    item_ids: list[str]
    said: list[dict[str, str]]
    also: dict[str, float]
    shown: dict[str, dict[str, str]]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.n == len(self.correct) == len(self.item_ids) or len(self.said) not in (0, self.n):
            raise ValueError("items are missing")
        # Prompts without right answers are shown only.
        if not self.n and not self.shown:
            raise ValueError("items are missing")
        return self

    def score(self) -> SuiteScore:
        """The score as it was."""
        return SuiteScore(
            metric=self.metric,
            value=self.value,
            n=self.n,
            correct=tuple(self.correct),
            item_ids=tuple(self.item_ids),
            said=tuple(Said(**each) for each in self.said),
            also=self.also,
            shown={key: Said(**each) for key, each in self.shown.items()},
        )


@dataclass(frozen=True, kw_only=True)
class SuiteSaves:
    """The saved scores of an evaluation.

    Args:
        inputs: suite key to the digest of its files.
        attempts: folders of the attempts whose saves count; new ones go to the last.
        claims: a folder in which processes of one machine say which suite they take; None for one process.
        folder: where in an attempt they lie.
    """

    store: Store
    inputs: dict[str, str]
    attempts: tuple[str, ...]
    claims: Path | None = None
    folder: str = SUITES

    @classmethod
    def of(cls, store: Store, spec: WorkSpec, claims: Path | None = None, folder: str = SUITES) -> "SuiteSaves":
        """Those of a worker's attempt and of the attempts before it."""
        kinds = ("suite:", "shown:", VALIDATION_INPUT)
        inputs = {name.partition(":")[2]: ref.digest for name, ref in spec.inputs.items() if name.startswith(kinds)}
        attempts = tuple(attempt_path(spec.address, number) for number in [*spec.previous, spec.attempt])
        return cls(store=store, inputs=inputs, attempts=attempts, claims=claims, folder=folder)

    def find(self, key: str) -> SuiteScore | None:
        """The newest saved score of a suite; None where there is none that can be read and is of these files."""
        for attempt in reversed(self.attempts):
            path = f"{attempt}/{self.folder}/{key}.json"
            try:
                saved = find_record(self.store, path, SavedScore, "a suite's saved score")
            except CorruptArtifact as error:
                # Scored again: a save only spares time.
                print(f"suite {key}: {error}", flush=True)
                continue
            if saved is not None and saved.suite == self.inputs[key]:
                return saved.score()
        return None

    def save(self, key: str, score: SuiteScore) -> None:
        """Keep a score; what this attempt has already stays."""
        values: dict[str, Any] = {**asdict(score), "suite": self.inputs[key]}
        record = SavedScore.model_validate(values, strict=False)
        self.store.create_json(f"{self.attempts[-1]}/{self.folder}/{key}.json", record.model_dump(mode="json"))

    def claim(self, key: str) -> bool:
        """Whether this process is the one to score a suite."""
        if self.claims is None:
            return True
        try:
            (self.claims / key).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Those of ``keys`` that have no saved score."""
        return [key for key in keys if self.find(key) is None]
