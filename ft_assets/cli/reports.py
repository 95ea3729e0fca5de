"""A dataset version in words for the terminal: how it stands, and what its report says."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ft_assets.api import DatasetReport

_PAGE = "report/report.html"


def describe_report(report: "DatasetReport") -> Iterator[str]:
    """Print a report in lines: numbers and sentences, never a row's text."""
    dataset_key, artifact, review = report.key, report.artifact, report.review
    facts = artifact.facts
    rows = ", ".join(f"{side} {facts['rows'][side]:,}" for side in ("train", "validation", "holdout"))
    yield f"{dataset_key}: {review.state}"
    yield f"  rows: {facts['rows_read']:,} read; {rows}"
    yield from _listed("left out", [f"{count:,}: {reason}" for reason, count in report.left_out])
    yield from _listed("warnings", facts["warnings"])
    yield from _listed("held", list(review.reasons))
    if review.record:
        yield f"  approved by {review.record.actor} at {review.record.at}: {review.record.note}"
    elif review.reasons:
        yield f'  to continue: ft dataset approve {dataset_key} --note "why it may be used"'
    location = artifact.location(_PAGE)
    yield f"  page: {artifact.store.local_path(location) or f'{artifact.store.url}/{location}'}"


def _listed(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"  {title}:"
        yield from (f"    - {line}" for line in lines)
