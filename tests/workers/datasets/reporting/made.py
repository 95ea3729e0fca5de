"""Reports for tests, made by hand."""

from typing import Any

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.reporting.report import (
    Action,
    DatasetReport,
    Exhibit,
    Finding,
    LengthHistogram,
    Mixed,
    Note,
    Place,
    SplitNumbers,
    Step,
    StepReport,
    Upload,
)

FILE = "talks.jsonl"
GENERAL = Mixed(dataset="acme.general.v1", purpose="general", rows=50, share=0.05)


def place(row: int, file: str = FILE) -> Place:
    return Place(file=file, row=row)


def finding(
    reason: str, count: int, action: Action = "removed", subject: str = "", rows: range | None = None
) -> Finding:
    notes = [Note(place=place(row)) for row in (range(1, count + 1) if rows is None else rows)][:200]
    return Finding(reason=reason, action=action, count=count, notes=notes, subject=subject)


def step(name: Step, *findings: Finding, rows_in: int = 1000) -> StepReport:
    removed = sum(each.count for each in findings if each.action == "removed")
    return StepReport(step=name, rows_in=rows_in, rows_out=rows_in - removed, findings=list(findings))


def sides(train: int = 800, validation: int = 100, holdout: int = 100, **kinds: int) -> dict[str, SplitNumbers]:
    return {
        "train": SplitNumbers(rows=train, characters=train * 500, groups=train, kinds=kinds),
        "validation": SplitNumbers(rows=validation, characters=validation * 500, groups=validation),
        "holdout": SplitNumbers(rows=holdout, characters=holdout * 500, groups=holdout),
    }


def report(*steps: StepReport, **fields: Any) -> DatasetReport:
    """A report of 1,000 rows that nobody would warn about, with what the test is about changed."""
    good: dict[str, Any] = {
        "uploads": [Upload(name=FILE, size=500_000, sha256="ab" * 32, rows=1000)],
        "policy": DatasetPolicy(),
        "form": "chat",
        "forms": {"messages": 1000},
        "rows_read": 1000,
        "steps": list(steps),
        "splits": sides(),
        "length_histogram": LengthHistogram.from_bit_lengths({8: 300, 9: 700}),
        "languages": {"en": 1000},
        "mixed": [GENERAL],
    }
    return DatasetReport(**{**good, **fields})


def exhibit(name: Step, reason: str, row: int, text: str, other: int | None = None, other_text: str = "") -> Exhibit:
    other_place = None if other is None else place(other)
    return Exhibit(
        step=name, reason=reason, place=place(row), text=text, other_place=other_place, other_text=other_text
    )
