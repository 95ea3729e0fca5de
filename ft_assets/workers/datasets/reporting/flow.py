"""The report's numbers as bar lengths."""

from collections.abc import Mapping
from dataclasses import dataclass

from ft_assets.workers.datasets.reporting.report import (
    Action,
    DatasetReport,
    LengthHistogram,
    Step,
    StepReport,
    rows_found,
)

_TITLES: dict[Step, str] = {
    "read": "Read and check",
    "personal_data": "Personal data",
    "duplicates": "Duplicates",
    "contamination": "Test items",
    "paraphrases": "Paraphrased test items",
    "quality": "Quality",
    "toxicity": "Toxicity",
    "split": "Split",
    "own_holdout": "Overlap with the holdout",
    "balance": "Balance",
    "mix": "Other data mixed in",
}
_SUBJECTS: dict[Step, str] = {
    "read": "Rows that cannot be read or used",
    "personal_data": "Personal data and secrets",
    "duplicates": "Repeated rows",
    "contamination": "Rows that contain public test items",
    "paraphrases": "Rows that paraphrase public test items",
    "quality": "Answers that are empty, truncated or repetitive",
    "toxicity": "Rows flagged by the classifier",
    "split": "Rows for training, validation and holdout",
    "own_holdout": "Rows that overlap with the holdout",
    "balance": "Categories with too many rows",
    "mix": "General data that preserves other abilities",
}
_SAID: dict[Action, str] = {"removed": "left out", "changed": "changed", "warned": "noted", "held": "held"}
# Steps whose findings may name the same row several times.
_OVERLAPPING = ("personal_data", "quality", "toxicity")


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowStep:
    """A step as a bar: rows that stay, are left out, and are added, as shares (0 to 1) of the largest row count."""

    title: str
    subject: str
    rows_out: int
    stay: float
    removed: float
    added: float
    said: str


def flow_of(report: DatasetReport) -> list[FlowStep]:
    """The steps that ran, in order."""
    most = max([report.rows_read, *(max(step.rows_in, step.rows_out) for step in report.steps)], default=0) or 1
    return [
        FlowStep(
            title=_TITLES[step.step],
            subject=_SUBJECTS[step.step],
            rows_out=step.rows_out,
            stay=min(step.rows_in, step.rows_out) / most,
            removed=max(0, step.rows_in - step.rows_out) / most,
            added=max(0, step.rows_out - step.rows_in) / most,
            said=_said(step),
        )
        for step in report.steps
    ]


def _said(step: StepReport) -> str:
    """``12 left out, 3 noted``: numbers of rows, even if a row can have several findings."""
    parts = []
    if step.rows_out < step.rows_in:
        parts.append(f"{step.rows_in - step.rows_out:,} left out")
    if step.rows_out > step.rows_in:
        parts.append(f"{step.rows_out - step.rows_in:,} added")
    for action in ("changed", "warned", "held"):
        found = [finding for finding in step.findings if finding.action == action and finding.count]
        if step.step in _OVERLAPPING:
            count, exact = rows_found(found)
        else:
            count, exact = sum(finding.count for finding in found), True
        if found:
            parts.append(f"{'' if exact else 'at least '}{count:,} {_SAID[action]}")
    return ", ".join(parts)


def shares(counts: Mapping[str, int]) -> list[tuple[str, int, float]]:
    """Name, count and the share of all, the largest first; empty if all are 0."""
    total = sum(counts.values())
    found = [(name, count, count / total) for name, count in counts.items() if count]
    return sorted(found, key=lambda item: (-item[1], item[0]))


def histogram_bars(histogram: LengthHistogram) -> list[tuple[int, int, int, float]]:
    """For each bin: the lowest and the highest number of characters, the count, and the height (0 to 1)."""
    most = max(histogram.counts, default=0) or 1
    edges = histogram.edges
    return [(edges[i], edges[i + 1] - 1, count, count / most) for i, count in enumerate(histogram.counts)]
