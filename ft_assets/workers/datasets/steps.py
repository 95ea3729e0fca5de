"""The steps of curation that need all rows at once; each is a function that decides and reports."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.columns import EXAMPLES
from ft_assets.workers.datasets.decisions import SHOWN, Decisions
from ft_assets.workers.datasets.engine.chunks import open_chunk
from ft_assets.workers.datasets.engine.local import Mapper
from ft_assets.workers.datasets.engine.prepare import open_index
from ft_assets.workers.datasets.forms.content_keys import flat_texts
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.quality.balance import balance
from ft_assets.workers.datasets.quality.draw import lowest
from ft_assets.workers.datasets.reporting.report import Action, Finding
from ft_assets.workers.datasets.split import HOLDOUT, TRAIN, straddling

_ACTIONS: dict[str, Action] = {"remove": "removed", "escalate": "held", "warn": "warned", "detect": "warned"}
# Wording that this many rows of a sample of the holdout share belongs to the prompts and gives nothing away.
_COMMON_SAMPLE = 20_000
_COMMON = 3
_COMMON_SHARE = 0.001
# The same for other rows, which matters if the holdout is small: a leak is not in every two-hundredth row.
_TEMPLATE = 20
_TEMPLATE_SHARE = 0.005


def report_personal(decisions: Decisions, policy: DatasetPolicy) -> None:
    """Rows with personal data, by type; scrubbing was done chunk by chunk."""
    settings, rows_in = policy.personal_data, decisions.count
    if settings.action == "off":
        return
    action: Action = "changed" if settings.action == "scrub" else _ACTIONS[settings.action]
    # More people can see the page than the data.
    shown = SHOWN if settings.action == "scrub" else 0
    found = [[np.zeros(0, np.int64)] for _ in settings.types]
    for start, _, batch in decisions.rows.batches():
        bits = batch.column("personal").to_numpy()
        for index in range(len(settings.types)):
            found[index].append(start + np.flatnonzero(bits & (1 << index)))
    findings = []
    for name, places in zip(settings.types, found, strict=True):
        positions = np.concatenate(places)
        findings.append(decisions.find("personal_data", "personal_data", action, positions, subject=name, shown=shown))
    decisions.report("personal_data", findings, rows_in)


def remove_duplicates(
    decisions: Decisions, policy: DatasetPolicy, scratch: Path, memory_bytes: int, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Leave out rows that repeat an earlier one. With ``near: keep``, returns pairs of rows that belong together."""
    from ft_assets.workers.datasets.similarity.near import find_duplicates

    settings, rows_in = policy.duplicates, decisions.count
    table = find_duplicates(
        decisions.rows.paths,
        decisions.rows.texts_at,
        None if settings.near == "off" else settings.threshold,
        scratch,
        memory_bytes,
        linked=settings.near == "keep",
        threads=threads,
    )
    at, kept, similarity = (table.column(name).to_numpy() for name in ("at", "kept", "similarity"))
    exact = table.column("exact").to_numpy()
    near = ~exact
    findings = [
        decisions.find("duplicates", Reason.DUPLICATE, "removed", at[exact], others=kept[exact]),
        decisions.find(
            "duplicates",
            Reason.NEAR_DUPLICATE,
            "warned" if settings.near == "keep" else "removed",
            at[near],
            others=kept[near],
            similarities=similarity[near],
        ),
    ]
    decisions.report("duplicates", findings, rows_in)
    return (at[near], kept[near]) if settings.near == "keep" else (at[:0], kept[:0])


def check_contamination(decisions: Decisions, policy: DatasetPolicy, suites: Sequence[str]) -> None:
    """Rows that give away test items, by suite."""
    if not suites:
        return
    rows_in = decisions.count
    found: list[list[np.ndarray]] = [[] for _ in suites]
    shares: list[list[np.ndarray]] = [[] for _ in suites]
    for start, _, batch in decisions.rows.batches():
        hits, grams = (batch.column(name).to_numpy().astype(np.int64) for name in ("hits", "grams"))
        source = batch.column("source").to_numpy()
        over = decisions.kept[start : start + len(hits)] & (hits > policy.contamination.threshold * grams)
        for index in range(len(suites)):
            rows = np.flatnonzero(over & (source == index))
            found[index].append(start + rows)
            shares[index].append(hits[rows] / grams[rows])
    findings = [
        decisions.find(
            "contamination",
            Reason.CONTAMINATED,
            _ACTIONS[policy.contamination.action],
            np.concatenate([np.zeros(0, np.int64), *found[index]]),
            subject=suite,
            similarities=np.concatenate([np.zeros(0), *shares[index]]),
        )
        for index, suite in enumerate(suites)
    ]
    decisions.report("contamination", findings, rows_in)


def check_quality(decisions: Decisions, policy: DatasetPolicy) -> None:
    """Rows that a heuristic flags: left out if the policy filters by it, else only listed."""
    rows_in = decisions.count
    names = ("empty_answer", "short", "long", "repetitive", "truncated")
    found: dict[str, list[np.ndarray]] = {name: [np.zeros(0, np.int64)] for name in names}
    for start, _, batch in decisions.rows.batches():
        kept = decisions.kept[start : start + batch.num_rows]
        for name in names:
            flagged = batch.column(name).to_numpy(zero_copy_only=False) & kept
            if name in policy.quality.filter:
                # One reason per row: the first that applies.
                kept = kept & ~flagged
            found[name].append(start + np.flatnonzero(flagged))
    findings = [
        decisions.find(
            "quality", name, "removed" if name in policy.quality.filter else "warned", np.concatenate(found[name])
        )
        for name in names
    ]
    decisions.report("quality", findings, rows_in)


Classify = Callable[[Sequence[str]], np.ndarray]


def check_toxicity(decisions: Decisions, policy: DatasetPolicy, classify: Classify) -> None:
    """Rows that the classifier flags. ``reject`` is decided by acceptance, from the finding."""
    assert policy.toxicity is not None
    settings, rows_in = policy.toxicity, decisions.count
    found, scores = [np.zeros(0, np.int64)], [np.zeros(0)]
    for start, _, batch in decisions.rows.batches():
        rows = np.flatnonzero(decisions.kept[start : start + batch.num_rows])
        if len(rows):
            given = classify(decisions.rows.texts_at(start + rows).to_pylist())
            over = given >= settings.threshold
            found.append(start + rows[over])
            scores.append(given[over])
    action: Action = {"remove": "removed", "escalate": "held", "reject": "warned"}[settings.action]  # type: ignore[assignment]
    finding = decisions.find(
        "toxicity", Reason.TOXIC, action, np.concatenate(found), similarities=np.concatenate(scores)
    )
    decisions.report("toxicity", [finding], rows_in)


def remove_straddling(decisions: Decisions, units: np.ndarray, sides: np.ndarray) -> None:
    """Leave out rows whose unit (prompt, group or cluster) is set aside on another side."""
    rows_in = decisions.count
    positions = np.flatnonzero(straddling(units, sides, decisions.kept))
    decisions.report("split", [decisions.find("split", Reason.SET_ASIDE, "removed", positions)], rows_in)


def remove_holdout_overlap(
    decisions: Decisions, sides: np.ndarray, policy: DatasetPolicy, scratch: Path, map_chunks: Mapper
) -> None:
    """Leave out training and validation rows that give away the tenant's own holdout."""
    rows_in = decisions.count
    index = scratch / "holdout.grams"
    _index_holdout(decisions, sides, index, map_chunks)
    asked, tasks = [], []
    for start, chunk, _ in decisions.rows.batches():
        end = start + chunk.examples
        rows = np.flatnonzero(decisions.kept[start:end] & (sides[start:end] != HOLDOUT))
        if len(rows):
            asked.append(start)
            tasks.append((chunk.path, rows, str(index), policy.contamination.threshold))
    found, shares = [np.zeros(0, np.int64)], [np.zeros(0)]
    for start, (rows, share) in zip(asked, map_chunks(_overlapping, tasks), strict=True):
        found.append(start + rows)
        shares.append(share)
    finding: Finding = decisions.find(
        "own_holdout",
        Reason.HOLDOUT_OVERLAP,
        "removed",
        np.concatenate(found),
        similarities=np.concatenate(shares),
    )
    decisions.report("own_holdout", [finding], rows_in)


def _index_holdout(decisions: Decisions, sides: np.ndarray, path: Path, map_chunks: Mapper) -> None:
    from ft_assets.workers.datasets.similarity.ngrams import GramIndex, common_grams

    rows = decisions.rows
    holdout, others = (np.flatnonzero(decisions.kept & which) for which in (sides == HOLDOUT, sides != HOLDOUT))

    def common_of(positions: np.ndarray, least: int, share: float) -> np.ndarray:
        sample = positions[lowest(rows.content_at(positions), _COMMON_SAMPLE)]
        return common_grams(rows.texts_at(sample), max(least, int(share * len(sample))))

    with ThreadPoolExecutor(1, "common") as beside:
        templates = beside.submit(common_of, others, _TEMPLATE, _TEMPLATE_SHARE)
        common = np.union1d(common_of(holdout, _COMMON, _COMMON_SHARE), templates.result())
    grams = map_chunks(_grams_in_chunk, rows.by_chunk(holdout))
    GramIndex.build_of_grams((("holdout", each) for each in grams), path, common, own=True)


def _grams_in_chunk(task: tuple[str, np.ndarray]) -> np.ndarray:
    """The grams of the given rows of a chunk (runs in any process)."""
    from ft_assets.workers.datasets.similarity.ngrams import grams_of

    path, rows = task
    return grams_of(flat_texts(open_chunk(path).select(EXAMPLES.names).take(pa.array(rows))))


def _overlapping(task: tuple[str, np.ndarray, str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Which of the given rows of a chunk overlap with an index, and how much (runs in any process)."""
    path, rows, index, threshold = task
    # Nearly all rows: only their texts are read, as the rows have many columns.
    overlap = open_index(index, own=True).overlap(flat_texts(open_chunk(path)).take(pa.array(rows)))
    over = np.flatnonzero(overlap.hits > threshold * overlap.grams)
    return rows[over], overlap.hits[over] / overlap.grams[over]


def balance_training(decisions: Decisions, sides: np.ndarray, policy: DatasetPolicy) -> None:
    """Leave out training rows of categories that have too many."""
    if policy.balance is None:
        return
    rows_in = decisions.count
    train = np.flatnonzero(decisions.kept & (sides == TRAIN))
    categories = decisions.rows.column_at(policy.balance.by, train)
    keep = balance(categories, decisions.rows.content_at(train), policy.balance)
    findings = [decisions.find("balance", Reason.BALANCED_OUT, "removed", train[~keep])]
    if not pc.any(pc.not_equal(categories, "")).as_py():
        # It concerns every row, so none is listed or shown.
        findings.append(Finding(reason="no_category", action="warned", count=len(train), subject=policy.balance.by))
    decisions.report("balance", findings, rows_in)
