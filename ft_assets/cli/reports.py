"""A dataset version in words for the terminal: how it stands, and what its report says."""

from collections.abc import Iterator

from ft_assets.datasets.reporting.reasons import reason_words
from ft_assets.datasets.review import Review, review_of
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import HeldForReview, MissingInput, UserError

_PAGE = "report/report.html"


def state_of(artifacts: Artifacts, dataset_key: str) -> str:
    """``accepted``, ``held``, ``approved``, ``not curated``, or ``unreadable``: one broken record hides no others."""
    try:
        return review_of(artifacts, dataset_key).state
    except (MissingInput, HeldForReview):
        # Not curated, perhaps as a dataset that it mixes in is not there or is held.
        return "not curated"
    except UserError:
        return "unreadable"


def describe_report(dataset_key: str, artifact: Artifact, review: Review) -> Iterator[str]:
    """Lines for a person: numbers and sentences, never a row's text."""
    facts = artifact.facts
    rows = ", ".join(f"{side} {facts['rows'][side]:,}" for side in ("train", "validation", "holdout"))
    yield f"{dataset_key}: {review.state}"
    yield f"  rows: {facts['rows_read']:,} read; {rows}"
    dropped = sorted(facts["dropped"].items(), key=lambda item: -item[1])
    yield from _listed("left out", [f"{count:,}: {reason_words(reason)}" for reason, count in dropped])
    yield from _listed("warnings", facts["warnings"])
    yield from _listed("held", list(review.reasons))
    if review.record:
        yield f"  approved by {review.record.actor} at {review.record.at}: {review.record.note}"
    elif review.reasons:
        yield f'  to go on: ft dataset approve {dataset_key} --note "why it may be used"'
    location = artifact.location(_PAGE)
    yield f"  page: {artifact.store.local_path(location) or f'{artifact.store.url}/{location}'}"


def _listed(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"  {title}:"
        yield from (f"    - {line}" for line in lines)
