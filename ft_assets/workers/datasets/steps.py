"""The steps of curation that need all rows at once; each is a function that decides and reports."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow.compute as pc

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.decisions import ACTIONS, Decisions
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.quality.balance import balance
from ft_assets.workers.datasets.reporting.report import Action, Finding
from ft_assets.workers.datasets.split import TRAIN


def report_personal(decisions: Decisions, policy: DatasetPolicy) -> None:
    """Rows with personal data, by type; scrubbing was done chunk by chunk."""
    settings, rows_in = policy.personal_data, decisions.count
    if settings.action == "off":
        return
    action: Action = "changed" if settings.action == "scrub" else ACTIONS[settings.action]
    found = [[np.zeros(0, np.int64)] for _ in settings.searched]
    for start, _, batch in decisions.rows.batches():
        bits = batch.column("personal").to_numpy()
        for index in range(len(settings.searched)):
            found[index].append(start + np.flatnonzero(bits & (1 << index)))
    findings = []
    for name, places in zip(settings.searched, found, strict=True):
        positions = np.concatenate(places)
        findings.append(decisions.find("personal_data", "personal_data", action, positions, subject=name))
    decisions.report("personal_data", findings, rows_in)


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
