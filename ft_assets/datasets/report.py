"""The validation report as data (``report/report.json``). It holds row numbers, field names and counts, no row text."""

from pydantic import BaseModel, ConfigDict, Field

from ft_assets.datasets.policy import DatasetPolicy
from ft_assets.datasets.rows import BadRow, Reason


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Upload(_Record):
    """The file that was curated."""

    name: str
    size: int
    sha256: str


class Duplicate(_Record):
    """``row`` repeats ``kept_row``, which was kept because it comes first."""

    row: int
    kept_row: int


class SplitNumbers(_Record):
    """One side: rows, characters, groups (0 where rows are not grouped) and rows by ``kind`` (none where
    there are more than 12 kinds)."""

    rows: int
    characters: int
    groups: int
    kinds: dict[str, int]


class LengthHistogram(_Record):
    """Kept rows by characters: ``counts[i]`` of them have ``edges[i] <= characters < edges[i + 1]``."""

    edges: list[int]
    counts: list[int]


class DatasetReport(_Record):
    """What came in, what was dropped and why, and what is left. The longest lists name 200 rows for each reason."""

    version: int = 1
    upload: Upload
    policy: DatasetPolicy
    rows_read: int = Field(description="Rows of the upload, blank lines not counted.")
    schemas: dict[str, int] = Field(description="Kept rows by the form they came in.")
    unused_fields: dict[str, int] = Field(description="Fields that curation did not look at, and in how many rows.")
    dropped: dict[str, int] = Field(description="Rows left out, by reason (see Reason).")
    bad_rows: list[BadRow]
    duplicates: list[Duplicate]
    splits: dict[str, SplitNumbers]
    largest_group_rows: int
    length_histogram: LengthHistogram
    warnings: list[str] = []

    @property
    def examples(self) -> int:
        """Rows kept, on all sides."""
        return sum(numbers.rows for numbers in self.splits.values())

    @property
    def bad_count(self) -> int:
        """Rows that cannot be used; duplicates are not among them."""
        return sum(count for reason, count in self.dropped.items() if reason != Reason.DUPLICATE)
