"""The report of a dataset version as data (``report/report.json``): places, counts and names, never a row's text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ft_assets.datasets.policy import DatasetPolicy

# A finding names this many of its rows; beyond them, it counts.
LISTED_NOTES = 200
# A kind with a value of its own in every row says nothing, and would put the rows' text into the report.
LISTED_KINDS = 100

Step = Literal[
    "read",
    "personal_data",
    "duplicates",
    "contamination",
    "quality",
    "toxicity",
    "split",
    "own_holdout",
    "balance",
    "mix",
]
Action = Literal["removed", "changed", "warned", "held"]
Role = Literal["train", "validation", "holdout"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Place(_Record):
    """A row as the tenant counts it: 1-based in the uploaded file ``file``; row 0 is the file as a whole."""

    file: str
    row: int = Field(ge=0)

    def __str__(self) -> str:
        return f"{self.file}, row {self.row:,}" if self.row else self.file


class Note(_Record):
    """One row of a finding.

    ``detail`` says more where there is more to say: ``messages[1].role: …`` of a bad row, the test suite of a leak.
    ``other`` is the row that was kept instead, or that this one is like; ``similarity`` (0 to 1) how alike they are:
    Jaccard of character 5-grams for duplicates, the share of this row's 13-grams for overlaps with tests.
    """

    place: Place
    detail: str = ""
    other: Place | None = None
    similarity: float | None = Field(default=None, ge=0, le=1)


class Finding(_Record):
    """What a step found in ``count`` rows and did with them.

    ``reason`` is a key of ``reasons.REASONS``; ``subject`` divides a reason (the suite, the type of personal data, the
    label). ``notes`` name up to LISTED_NOTES of the rows, those that come first in the upload.
    """

    reason: str
    action: Action
    count: int = Field(ge=0)
    notes: list[Note] = Field(default=[], max_length=LISTED_NOTES)
    subject: str = ""


class StepReport(_Record):
    """One step: rows that went in and came out. Only ``mix`` may add rows."""

    step: Step
    rows_in: int = Field(ge=0)
    rows_out: int = Field(ge=0)
    findings: list[Finding] = []


class Upload(_Record):
    """One uploaded file; ``size`` in bytes, ``rows`` as read, blank lines not counted."""

    name: str
    role: Role = "train"
    size: int = Field(ge=0)
    sha256: str
    rows: int = Field(default=0, ge=0)


class SplitNumbers(_Record):
    """One side: rows, characters, groups (0 where rows are not grouped) and rows by ``kind`` (the largest
    LISTED_KINDS; none where nearly every row has a kind of its own)."""

    rows: int = Field(default=0, ge=0)
    characters: int = Field(default=0, ge=0)
    groups: int = Field(default=0, ge=0)
    kinds: dict[str, int] = {}


class LengthHistogram(_Record):
    """Kept rows by characters: ``counts[i]`` of them have ``edges[i] <= characters < edges[i + 1]``."""

    edges: list[int] = []
    counts: list[int] = []

    @model_validator(mode="after")
    def _has_an_edge_more(self) -> Self:
        if len(self.edges) != (len(self.counts) + 1 if self.counts else 0):
            raise ValueError("a histogram has one edge more than it has counts")
        return self

    @classmethod
    def from_bit_lengths(cls, counts: Mapping[int, int]) -> Self:
        """From numbers of rows by the ``bit_length`` b of their characters: 2^(b-1) <= characters < 2^b, 0 for b=0."""
        found = [bits for bits, count in counts.items() if count]
        if not found:
            return cls()
        bins = range(min(found), max(found) + 1)
        edges = [1 << (bits - 1) if bits else 0 for bits in [*bins, bins[-1] + 1]]
        return cls(edges=edges, counts=[counts.get(bits, 0) for bits in bins])


class Mixed(_Record):
    """Training rows taken from another dataset version; ``share`` is what they are of the training rows now."""

    dataset: str
    purpose: Literal["general", "safety"]
    rows: int = Field(ge=0)
    share: float = Field(ge=0, le=1)


class DatasetReport(_Record):
    """What came in, what each step did, and what is left."""

    version: Literal[2] = 2
    uploads: list[Upload]
    policy: DatasetPolicy
    form: str = Field(description="What the examples teach: chat, preference or text.")
    forms: dict[str, int] = Field(default={}, description="Rows read by the form they came in.")
    rows_read: int = Field(ge=0, description="Rows of all uploads, blank lines not counted.")
    unused_fields: dict[str, int] = Field(default={}, description="Fields that curation ignored, and in how many rows.")
    normalized: int = Field(default=0, ge=0, description="Rows whose Unicode form, line ends or controls were changed.")
    steps: list[StepReport] = []
    splits: dict[str, SplitNumbers]
    length_histogram: LengthHistogram = LengthHistogram()
    languages: dict[str, int] = Field(default={}, description="Rows by ISO 639-1 language, of a sample.")
    personal_data: dict[str, int] = Field(default={}, description="Pieces of personal data found, by type.")
    suites: list[str] = Field(default=[], description="Suites whose test items the examples were compared with.")
    mixed: list[Mixed] = []
    largest_group_rows: int = Field(default=0, ge=0)
    held: list[str] = Field(default=[], description="Why a person must look at the version before it is used.")
    warnings: list[str] = []

    @property
    def examples(self) -> int:
        """Rows kept, on all sides."""
        return sum(numbers.rows for numbers in self.splits.values())

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
        """Rows that cannot be used, whatever the policy."""
        return sum(finding.count for finding in self.findings("read") if finding.action == "removed")

    def findings(self, step: Step) -> list[Finding]:
        """What ``step`` found; nothing where it did not run."""
        return [finding for each in self.steps if each.step == step for finding in each.findings]


@dataclass(frozen=True, kw_only=True, slots=True)
class Exhibit:
    """A row shown on the page with (the beginning of) its text; never part of the report.

    ``reason`` is that of the finding, or ``kept`` for an example of what the model learns from. ``other_text`` is the
    text of ``other_place``: the row kept instead, or what the row is like.
    """

    step: Step
    reason: str
    place: Place
    text: str
    other_place: Place | None = None
    other_text: str = ""
