"""The step that decides each row's side: by its unit's name and the seed, and by what was held out before."""

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.decisions import Decisions
from ft_assets.workers.datasets.duplicates import Copies
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.held_out import NEAR, HeldOut, NearIndex, bands_of, content_words, unit_keys
from ft_assets.workers.datasets.prepared import PreparedRows
from ft_assets.workers.datasets.split import (
    HOLDOUT,
    TRAIN,
    VALIDATION,
    Keys,
    fill_sides,
    join_units,
    mostly,
    sides_of,
    straddling,
    units_of,
)

_CODES = {"train": TRAIN, "validation": VALIDATION, "holdout": HOLDOUT}


def keys_of(rows: PreparedRows) -> Keys:
    """What decides the rows' sides, from one pass over them."""
    units, grouped, roles = [np.zeros(0, np.uint64)], [np.zeros(0, np.bool_)], [np.zeros(0, np.uint8)]
    for _, chunk, batch in rows.batches():
        units.append(units_of(batch.column("prompt"), batch.column("group")))
        grouped.append(pc.not_equal(batch.column("group"), "").to_numpy(zero_copy_only=False))
        roles.append(np.full(chunk.examples, _CODES[chunk.role], np.uint8))
    return Keys(units=np.concatenate(units), grouped=np.concatenate(grouped), roles=np.concatenate(roles))


def decide_sides(
    decisions: Decisions, keys: Keys, copies: Copies, policy: DatasetPolicy, memory: HeldOut
) -> np.ndarray:
    """The side (uint8 ``[n]``) of each row, also of dropped ones.

    A unit of which most rows were held out before is held out as a whole, whatever is drawn for it. Of other units only
    those rows are left out, unless the draw holds the unit out anyway. Rows whose unit is set aside on another side, in
    a file of the tenant's, are also left out.
    """
    units = join_units(keys.units, *_together(keys, copies, policy))
    upload = keys.roles == TRAIN
    own = {side: bool((keys.roles == side).any()) for side in (VALIDATION, HOLDOUT)}
    given = {"validation": not own[VALIDATION], "holdout": not own[HOLDOUT]}
    held = _held_before(decisions, keys, copies, policy, memory)
    drawn = sides_of(units, policy.split, **given)
    stays = np.zeros(len(drawn), np.bool_)
    if held.rows.any() and not own[HOLDOUT]:
        stays = mostly(units, held.rows & decisions.kept & upload, decisions.kept & upload) & (drawn != HOLDOUT)
        drawn = np.where(stays, np.uint8(HOLDOUT), drawn)
    drawn = fill_sides(units, drawn, policy.split, **given)
    sides = np.where(upload, drawn, keys.roles).astype(np.uint8)
    rows_in = decisions.count
    lost = np.flatnonzero(decisions.kept & held.rows & (sides != HOLDOUT))
    again = np.flatnonzero(decisions.kept & stays & upload)
    findings = [
        decisions.find("split", "stays_held_out", "warned", again),
        decisions.find("split", Reason.HELD_OUT, "removed", lost, others=held.like[lost]),
    ]
    apart = np.flatnonzero(straddling(units, sides, decisions.kept))
    findings.append(decisions.find("split", Reason.SET_ASIDE, "removed", apart))
    decisions.report("split", findings, rows_in)
    return sides


def _together(keys: Keys, copies: Copies, policy: DatasetPolicy) -> tuple[np.ndarray, np.ndarray]:
    """The near copies (at, kept) that join their units.

    All that stay do. Of removed copies, those without a group do: the row that stays is then on the side of its
    cluster, whichever row came first. Removed rows do not join groups: a sentence that most conversations have would
    make one unit of all of them.
    """
    joins = copies.near
    if policy.duplicates.near == "remove":
        joins = joins & (copies.stay[copies.at] | ~(keys.grouped[copies.at] | keys.grouped[copies.kept]))
    return copies.at[joins], copies.kept[joins]


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows (bool ``[n]``) that were held out before, or are near copies or unit mates of such rows; ``like`` is the row
    of this version by which a row was recognised, -1 for none."""

    rows: np.ndarray
    like: np.ndarray


def _held_before(decisions: Decisions, keys: Keys, copies: Copies, policy: DatasetPolicy, memory: HeldOut) -> _Held:
    count = len(keys.units)
    rows, like = np.zeros(count, np.bool_), np.full(count, -1)
    if not len(memory):
        return _Held(rows, like)
    contents = [content_words(batch.column("content")) for _, _, batch in decisions.rows.batches()]
    content = np.concatenate([np.zeros(0, np.uint64), *contents])
    rows = memory.has("content", content)
    by_copy = rows[copies.at] & ~rows[copies.kept]
    like[copies.kept[by_copy]] = copies.at[by_copy]
    near = policy.duplicates.near != "off"
    # Copies of rows that stay here were found above, by their texts.
    rows |= _near(decisions, ~rows, memory.without(content[copies.stay]) if near else memory, policy)
    found = -1
    while found != (found := int(rows.sum())):
        rows[copies.kept[rows[copies.at]]] = True
        rows[copies.at[rows[copies.kept]]] = True
    return _Held(rows | memory.has("unit", unit_keys(keys.units, keys.grouped, policy)), like)


def _near(decisions: Decisions, asked: np.ndarray, memory: HeldOut, policy: DatasetPolicy) -> np.ndarray:
    """Kept rows (bool ``[n]``) among ``asked`` that are near copies of remembered ones."""
    found = np.zeros(len(asked), np.bool_)
    if not len(memory):
        return found
    settings, index = policy.duplicates, NearIndex(memory)
    threshold = max(NEAR, settings.threshold) if settings.near != "off" else NEAR
    for start, chunk, batch in decisions.rows.batches():
        span = slice(start, start + chunk.examples)
        at = start + np.flatnonzero(asked[span] & decisions.kept[span])
        bands = bands_of(batch, policy)[at - start]
        found[at] = index.near(bands, lambda which, at=at: decisions.rows.texts_at(at[which]), threshold)  # type: ignore[misc]
    return found
