"""The step that finds rows which give away test items, and names the items."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.decisions import ACTIONS, Decisions
from ft_assets.workers.datasets.engine.prepare import open_items
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.reporting.report import Finding, Place
from ft_assets.workers.datasets.similarity.items import Found, ItemIndex

# A short question that this many rows begin with is common speech: "Why is the sky blue?"
_COMMON_ROWS = 3


def check_contamination(decisions: Decisions, policy: DatasetPolicy, suites: Sequence[str], index: Path | None) -> None:
    """Rows that give away test items, by suite."""
    if not suites or index is None:
        return
    rows_in, items = decisions.count, open_items(str(index))
    positions, found = _flagged(decisions, policy.contamination.threshold)
    # An item that the row does not give away need not be of the suite that most of the row's 13-grams belong to.
    of_item = np.array([items.place(item)[0] if item >= 0 else -1 for item in found.item.tolist()], np.int64)
    source = np.where(found.whole > 0, of_item, found.source)
    findings = []
    for number, suite in enumerate(suites):
        mine = source == number
        known = np.where(of_item == number, found.item, -1)[mine]
        findings.append(_finding(decisions, policy, suite, positions[mine], found.only(mine), known, items))
    decisions.report("contamination", findings, rows_in)


def _finding(
    decisions: Decisions,
    policy: DatasetPolicy,
    suite: str,
    positions: np.ndarray,
    found: Found,
    known: np.ndarray,
    items: ItemIndex,
) -> Finding:
    """The finding of one suite; ``known`` are the items of which the rows contain most (-1: none)."""

    def detail(at: int) -> str:
        item = int(known[at])
        if item < 0:
            return f"text of {suite}"
        named = f"item {items.place(item)[1]:,} of {suite}"
        if not found.whole[at]:
            return f"text of {named}"
        choices = f" and {found.choices[at]} of its {items.choices(item)} choices" if found.choices[at] else ""
        return f"{named}: its question{choices}"

    def beside(at: int) -> tuple[Place, str] | None:
        item = int(known[at])
        return (Place(file=suite, row=items.place(item)[1]), items.text(item)) if item >= 0 else None

    return decisions.find(
        "contamination",
        Reason.CONTAMINATED,
        ACTIONS[policy.contamination.action],
        positions,
        subject=suite,
        similarities=np.maximum(found.hits / np.maximum(found.grams, 1), np.where(found.whole > 0, found.share, 0)),
        details=detail,
        beside=beside,
    )


def _flagged(decisions: Decisions, threshold: float) -> tuple[np.ndarray, Found]:
    """The positions of contaminated rows, and what was found in each."""
    positions, parts = [np.zeros(0, np.int64)], []
    for start, _, batch in decisions.rows.batches():
        found = Found(*(batch.column(name).to_numpy() for name in Found.__slots__))
        over = decisions.kept[start : start + batch.num_rows] & found.leaks(threshold)
        positions.append(start + np.flatnonzero(over))
        parts.append(found.only(over))
    at, found = np.concatenate(positions), Found.joined(parts)
    short = (found.whole == 2) & (found.hits <= threshold * found.grams)
    items, times = np.unique(found.item[short], return_counts=True)
    counted = ~(short & np.isin(found.item, items[times >= _COMMON_ROWS]))
    return at[counted], found.only(counted)
