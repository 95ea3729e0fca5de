"""The step that leaves out rows that repeat others; in which groups rows stay does not depend on the rows' order."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.decisions import SHOWN, Decisions
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.held_out import content_words
from ft_assets.workers.datasets.quality.draw import leading_words, lowest
from ft_assets.workers.datasets.reporting.report import NEAR_SHOWN, Action
from ft_assets.workers.datasets.split import Keys

# Wording that this many rows of a sample share is not a row's own.
_SAMPLE = 20_000
_TEMPLATE = 20
_TEMPLATE_SHARE = 0.005
_SHOWN = {Reason.DUPLICATE: SHOWN, Reason.NEAR_DUPLICATE: NEAR_SHOWN}


@dataclass(frozen=True, kw_only=True, slots=True)
class Copies:
    """Pairs of rows: the row ``at`` repeats the row ``kept``, exactly or as a ``near`` copy (both stay if only their
    answers differ). ``stay``: which rows stay (bool, one for each row)."""

    at: np.ndarray
    kept: np.ndarray
    near: np.ndarray
    stay: np.ndarray


def remove_duplicates(
    decisions: Decisions, policy: DatasetPolicy, keys: Keys, scratch: Path, memory_bytes: int, threads: int
) -> Copies:
    """Leave out rows that repeat another; with ``near: keep`` only exact copies."""
    from ft_assets.workers.datasets.similarity.folded import bare_texts
    from ft_assets.workers.datasets.similarity.near import Wording, find_duplicates

    settings, rows_in = policy.duplicates, decisions.count

    def texts_at(positions: np.ndarray) -> pa.Array:
        return bare_texts(decisions.rows.texts_at(positions))

    def answers_at(positions: np.ndarray) -> pa.Array:
        return bare_texts(decisions.rows.answers_at(positions))

    wording = None
    if settings.near != "off":
        sample = lowest(decisions.rows.content_at(np.arange(len(decisions.rows))), _SAMPLE)
        wording = Wording.of(sample, texts_at, _TEMPLATE, _TEMPLATE_SHARE)
    found = find_duplicates(
        decisions.rows.paths,
        texts_at,
        None if settings.near == "off" else settings.threshold,
        scratch,
        memory_bytes,
        wording=wording,
        answers_at=answers_at,
        linked=settings.near == "keep",
        threads=threads,
    )
    at, kept, similarity = (found.duplicates.column(name).to_numpy().copy() for name in ("at", "kept", "similarity"))
    exact = found.duplicates.column("exact").to_numpy()
    undone = _undone(decisions, settings.keep, at, kept, exact)
    # Rows that stay though they are near others: by the policy, or because their answers differ.
    like, kin = np.append(at[undone], found.at), np.append(kept[undone], found.kin)
    at, kept, similarity, exact = (column[~undone] for column in (at, kept, similarity, exact))
    at, kept, like, kin = _least_group_stays(decisions, at, kept, exact, (like, kin), keys)
    findings = []
    for reason, which in ((Reason.DUPLICATE, exact), (Reason.NEAR_DUPLICATE, ~exact)):
        rows = np.flatnonzero(which)[np.argsort(at[which], kind="stable")]
        similar = reason is Reason.NEAR_DUPLICATE
        action: Action = "warned" if similar and settings.near == "keep" else "removed"
        alike = similarity[rows] if similar else None
        findings.append(
            decisions.find(
                "duplicates", reason, action, at[rows], others=kept[rows], similarities=alike, shown=_SHOWN[reason]
            )
        )
    decisions.report("duplicates", findings, rows_in)
    near = np.append(~exact, np.ones(len(like), np.bool_))
    return Copies(at=np.append(at, like), kept=np.append(kept, kin), near=near, stay=decisions.kept.copy())


def _undone(
    decisions: Decisions, keep: tuple[str, ...], at: np.ndarray, kept: np.ndarray, exact: np.ndarray
) -> np.ndarray:
    """Which near pairs (bool) are not duplicates by the policy; exact copies of such a row get it as their ``kept``."""
    if not keep:
        return np.zeros(len(at), np.bool_)
    rows = np.arange(len(decisions.rows))
    # An id is the first 6 bytes of a key.
    ids = leading_words(decisions.rows.content_at(rows)) >> np.uint64(16)
    named = np.array([int(each, 16) for each in keep], np.uint64)
    unknown = [each for each, there in zip(keep, np.isin(named, ids), strict=True) if not there]
    if unknown:
        decisions.warnings.append(
            f"`duplicates.keep` names {', '.join(unknown[:5])}{', …' if unknown[5:] else ''}, which no row has: a row "
            "that was changed has another id."
        )
    stays = np.isin(ids[at], named)
    undone: np.ndarray = stays & ~exact
    firsts = {int(ids[row]): row for row in at[undone].tolist()}
    for index in np.flatnonzero(stays & exact).tolist():
        kept[index] = firsts.get(int(ids[at[index]]), kept[index])
    return undone


def _least_group_stays(
    decisions: Decisions,
    at: np.ndarray,
    kept: np.ndarray,
    exact: np.ndarray,
    staying: tuple[np.ndarray, np.ndarray],
    keys: Keys,
) -> tuple[np.ndarray, ...]:
    """``at``, ``kept`` and both of ``staying``, changed so that of equal rows in several groups the row of the least
    group stays, not the first.

    The side of the row that stays would otherwise depend on the rows' order. A row set aside for measuring stays there.
    """
    units, roles = keys.units, keys.roles
    pairs = np.flatnonzero(exact & (units[at] < units[kept]) & (roles[at] == roles[kept]))
    if len(pairs):
        # A copy of a near copy is listed with the row that stays, whose text differs.
        contents = [_contents(decisions, rows[pairs]) for rows in (at, kept)]
        pairs = pairs[contents[0] == contents[1]]
    order = pairs[np.lexsort((at[pairs], units[at[pairs]], kept[pairs]))]
    firsts, places = np.unique(kept[order], return_index=True)
    stays = np.arange(len(units))
    stays[firsts] = at[order[places]]
    # The first row becomes a copy of the row that stays instead; near copies follow.
    goes = np.isin(at, stays[firsts]) & exact
    at = np.where(goes, kept, np.where(exact, at, stays[at]))
    return at, stays[kept], stays[staying[0]], stays[staying[1]]


def _contents(decisions: Decisions, positions: np.ndarray) -> np.ndarray:
    ascending, which = np.unique(positions, return_inverse=True)
    found: np.ndarray = content_words(decisions.rows.content_at(ascending))[which]
    return found
