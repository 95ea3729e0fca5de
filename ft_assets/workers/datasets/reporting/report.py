"""The report of a dataset version as data (``report/report.json``): places, counts and names. It quotes no rows' texts,
except kinds and answers that are labels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.strict_model import StrictModel, added_field

# A finding lists at most this many of its rows; further rows are only counted.
LISTED_NOTES = 200
# A kind that differs in every row has no use, and would put the rows' text into the report.
LISTED_KINDS = 100
LISTED_LABELS = 100
# Pairs of near-duplicates on the page, more than for other reasons: a person may find some that are not duplicates.
NEAR_SHOWN = 10

Step = Literal[
    "read",
    "personal_data",
    "duplicates",
    "contamination",
    "paraphrases",
    "quality",
    "toxicity",
    "split",
    "own_holdout",
    "balance",
    "mix",
]
Action = Literal["removed", "changed", "warned", "held"]
Role = Literal["train", "validation", "holdout"]


class Place(StrictModel):
    """A row as the tenant counts it: 1-based in the uploaded file ``file``; row 0 means the whole file."""

    file: str
    row: int = Field(ge=0)

    def __str__(self) -> str:
        return f"{self.file}, row {self.row:,}" if self.row else self.file


class Note(StrictModel):
    """One row of a finding.

    ``detail`` adds information: ``messages[1].role: …`` for a bad row, the test item for a leak. ``other`` is the row
    that was kept instead, or that this row resembles. ``similarity`` (0 to 1) is their Jaccard similarity of character
    5-grams for duplicates; for overlaps with tests the share of this row's 13-grams that are theirs, or of an item's
    question that is in this row, whichever is larger; for paraphrases the cosine of two vectors.
    """

    place: Place
    detail: str = ""
    other: Place | None = None
    similarity: float | None = Field(default=None, ge=0, le=1)


class Finding(StrictModel):
    """What a step found in ``count`` rows and did with them.

    ``reason`` is a key of ``reasons.REASONS``; ``subject`` divides a reason (the suite, the type of personal data, the
    label). ``notes`` list up to LISTED_NOTES of the rows, the first ones in the upload.
    """

    reason: str
    action: Action
    count: int = Field(ge=0)
    notes: list[Note] = Field(default=[], max_length=LISTED_NOTES)
    subject: str = ""


def rows_found(findings: Sequence[Finding]) -> tuple[int, bool]:
    """How many rows have any of ``findings``, and whether that is exact: a long finding does not list every row."""
    places = {note.place for finding in findings for note in finding.notes}
    exact = len(findings) < 2 or all(len(finding.notes) == finding.count for finding in findings)
    return max([len(places), *(finding.count for finding in findings)]), exact


class StepReport(StrictModel):
    """One step: rows that went in and came out. Only ``mix`` may add rows."""

    step: Step
    rows_in: int = Field(ge=0)
    rows_out: int = Field(ge=0)
    findings: list[Finding] = Field(default=[])


class Upload(StrictModel):
    """One uploaded file; ``size`` in bytes, ``rows`` as read, blank lines not counted; ``pictures`` are not read."""

    name: str
    role: Role = "train"
    size: int = Field(ge=0)
    sha256: str
    rows: int = Field(default=0, ge=0)
    pictures: int = Field(default=0, ge=0)


class Weights(StrictModel):
    """The rows' weights in training."""

    least: float
    mean: float
    most: float

    @classmethod
    def of(cls, weights: Sequence[float]) -> Self | None:
        """None without rows."""
        if not weights:
            return None
        return cls(least=min(weights), mean=math.fsum(weights) / len(weights), most=max(weights))


class SplitNumbers(StrictModel):
    """One side: rows, characters, groups (0 if rows are not grouped) and rows by ``kind`` (the largest LISTED_KINDS;
    none if nearly every row has its own kind)."""

    rows: int = Field(default=0, ge=0)
    characters: int = Field(default=0, ge=0)
    groups: int = Field(default=0, ge=0)
    kinds: dict[str, int] = Field(default={})
    weights: Weights | None = added_field(None, description="None if the policy names none.")


class Labels(StrictModel):
    """Answers that are labels, of the upload's kept rows on all sides; lists have at most LISTED_LABELS entries.

    Args:
        rows: how many there are, including the few whose answer is not a label.
        different: number of labels.
        counts: rows of each label, the most frequent first.
        single: number of labels of one row, whatever the spelling; ``once`` are the first of them.
        alike: number of groups of labels that differ only in case, spaces or punctuation; ``variants`` are the largest,
            with the rows of each spelling.
    """

    rows: int = Field(ge=0)
    different: int = Field(ge=0)
    counts: dict[str, int]
    single: int = Field(ge=0)
    once: list[str]
    alike: int = Field(ge=0)
    variants: list[dict[str, int]]


class LengthHistogram(StrictModel):
    """Kept rows by characters: ``counts[i]`` of them have ``edges[i] <= characters < edges[i + 1]``."""

    edges: list[int] = Field(default=[])
    counts: list[int] = Field(default=[])

    @model_validator(mode="after")
    def _has_an_edge_more(self) -> Self:
        if len(self.edges) != (len(self.counts) + 1 if self.counts else 0):
            raise ValueError("a histogram has one edge more than it has counts")
        return self

    @classmethod
    def from_bit_lengths(cls, counts: Mapping[int, int]) -> Self:
        """From row counts by the characters' ``bit_length`` b: 2^(b-1) <= characters < 2^b, 0 for b=0."""
        found = [bits for bits, count in counts.items() if count]
        if not found:
            return cls()
        bins = range(min(found), max(found) + 1)
        edges = [1 << (bits - 1) if bits else 0 for bits in [*bins, bins[-1] + 1]]
        return cls(edges=edges, counts=[counts.get(bits, 0) for bits in bins])


class Mixed(StrictModel):
    """Training rows taken from another dataset version; ``share`` is their share of the resulting training rows."""

    dataset: str
    purpose: Literal["general", "safety"]
    rows: int = Field(ge=0)
    share: float = Field(ge=0, le=1)


class DatasetReport(StrictModel):
    """What came in, what each step did, and what is left."""

    version: Literal[2] = 2
    uploads: list[Upload]
    policy: DatasetPolicy
    form: str = Field(description="What the examples teach: chat, preference or text.")
    forms: dict[str, int] = Field(default={}, description="Rows read by the form they came in.")
    rows_read: int = Field(ge=0, description="Rows of all uploads, blank lines not counted.")
    unused_fields: dict[str, int] = Field(default={}, description="Fields that curation ignored, and in how many rows.")
    normalized: int = Field(default=0, ge=0, description="Rows whose Unicode form, line ends or controls were changed.")
    unanswered: int = added_field(0, ge=0, description="Rows whose last turn, the user's, is left out.")
    steps: list[StepReport] = Field(default=[])
    splits: dict[str, SplitNumbers]
    length_histogram: LengthHistogram = LengthHistogram()
    labels: Labels | None = added_field(None, description="None if the answers are no labels.")
    languages: dict[str, int] = Field(default={}, description="Rows by ISO 639-1 language, of a sample.")
    personal_data: dict[str, int] = Field(default={}, description="Pieces of personal data found, by type.")
    suites: list[str] = Field(default=[], description="Suites whose test items the examples were compared with.")
    mixed: list[Mixed] = Field(default=[])
    largest_group_rows: int = Field(default=0, ge=0)
    held: list[str] = Field(default=[], description="Why a person must look at the version before it is used.")
    warnings: list[str] = Field(default=[])

    @property
    def examples(self) -> int:
        """Rows kept, on all sides."""
        return sum(numbers.rows for numbers in self.splits.values())

    @property
    def holdout(self) -> str:
        """What measures candidates, for people."""
        given = any(upload.role == "holdout" for upload in self.uploads)
        return "your own holdout" if given else "the holdout cut from your rows"

    @property
    def dropped(self) -> dict[str, int]:
        """Rows left out, by reason."""
        found: dict[str, int] = {}
        for step in self.steps:
            for finding in step.findings:
                if finding.action == "removed":
                    found[finding.reason] = found.get(finding.reason, 0) + finding.count
        return dict(sorted(found.items()))

    @property
    def bad_count(self) -> int:
        """Rows that cannot be used under any policy."""
        return sum(finding.count for finding in self.findings("read") if finding.action == "removed")

    def findings(self, step: Step) -> list[Finding]:
        """What ``step`` found; empty if it did not run."""
        return [finding for each in self.steps if each.step == step for finding in each.findings]


@dataclass(frozen=True, kw_only=True, slots=True)
class Exhibit:
    """A row shown on the page with (the beginning of) its text; never part of the report.

    ``reason`` is the finding's reason, or ``kept`` for an example of what the model learns from. ``other_text`` is the
    text of ``other_place``: the row kept instead, or the row that this one resembles. ``row_id`` is the row's in
    ``duplicates.keep``.
    """

    step: Step
    reason: str
    place: Place
    text: str
    other_place: Place | None = None
    other_text: str = ""
    row_id: str = ""
