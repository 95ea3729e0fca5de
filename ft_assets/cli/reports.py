"""A dataset version in words for the terminal: how it stands, and what its report says."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ft_assets.cli.door import page_of

if TYPE_CHECKING:
    from ft_assets.api import DatasetReport

_PAGE = "report/report.html"
_LABELS = 10


def describe_report(report: "DatasetReport") -> Iterator[str]:
    """Print a report in lines: numbers and sentences. Of rows' texts it has only answers that are labels."""
    dataset_key, artifact, review = report.key, report.artifact, report.review
    facts = artifact.facts
    rows = ", ".join(f"{side} {facts['rows'][side]:,}" for side in ("train", "validation", "holdout"))
    yield f"{dataset_key}: {review.state}"
    yield f"  rows: {facts['rows_read']:,} read; {rows}"
    if labels := facts.get("labels"):
        yield from _listed(f"labels ({labels['different']:,})", _counted(labels))
    yield from _listed("left out", [f"{count:,}: {reason}" for reason, count in report.left_out])
    yield from _listed("warnings", facts["warnings"])
    yield from _listed("held", list(review.reasons))
    if review.record:
        yield f"  approved by {review.record.actor} at {review.record.at}: {review.record.note}"
    elif review.reasons:
        yield f'  to continue: ft dataset approve {dataset_key} --note "why it may be used"'
    yield f"  page: {page_of(artifact, _PAGE)}"


def _counted(labels: dict[str, Any]) -> list[str]:
    """The most frequent labels, each with its rows."""
    # As stored, they are in order of their names.
    counts = sorted(labels["counts"].items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{count:,}: {label}" for label, count in counts[:_LABELS]]
    left = labels["different"] - len(shown)
    return [*shown, f"and {left:,} with fewer rows"] if left else shown


def _listed(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"  {title}:"
        yield from (f"    - {line}" for line in lines)
