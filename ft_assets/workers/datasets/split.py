"""Which side a row is on: a function of its prompt (or group) and the seed, so that other rows never move it, unless a
side would be empty."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.settings.dataset.policy import SplitSettings


class Split(StrEnum):
    """The three sides, named like their files and numbered in this order."""

    TRAIN = "train"
    VALIDATION = "validation"
    HOLDOUT = "holdout"


SIDES = tuple(Split)
TRAIN, VALIDATION, HOLDOUT = range(3)


@dataclass(frozen=True, kw_only=True, slots=True)
class Keys:
    """What decides the sides of rows: their ``units`` (uint64 ``[n]``, see ``units_of``), whether those are groups
    (``grouped``, bool), and the sides of the files that they came in (``roles``, uint8)."""

    units: np.ndarray
    grouped: np.ndarray
    roles: np.ndarray


def units_of(prompts: pa.UInt64Array, groups: pa.StringArray) -> np.ndarray:
    """What stays together, as uint64 ``[n]``: rows of one group, and for rows without a group, rows of one prompt."""
    units = prompts.to_numpy(zero_copy_only=False).astype(np.uint64)
    encoded = groups.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if names in ([], [""]):
        return units
    hashed = [int.from_bytes(hashlib.sha256(b"group:" + name.encode()).digest()[:8]) for name in names]
    codes = encoded.indices.to_numpy()
    grouped = np.array([bool(name) for name in names])[codes]
    return np.where(grouped, np.array(hashed, np.uint64)[codes], units)


def join_units(units: np.ndarray, at: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """``units``, merged for each pair of rows (``at``, ``kept``), so that near-duplicates stay on one side.

    A merged unit has the least of its units' names: the order of the rows does not matter, and rows added later change
    it only if they connect two units.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not len(at):
        return units
    names, codes = np.unique(units, return_inverse=True)
    pairs = (np.ones(len(at), np.bool_), (codes[at], codes[kept]))
    _, parts = connected_components(coo_array(pairs, shape=(len(names), len(names))), directed=False)
    # Names ascend, so the first of each part is its least.
    _, first = np.unique(parts, return_index=True)
    return names[first][parts[codes]]


def sides_of(
    units: np.ndarray, settings: SplitSettings, *, validation: bool = True, holdout: bool = True
) -> np.ndarray:
    """The side (uint8 ``[n]``, an index into SIDES) of rows of these units.

    Each unit gets a pseudo-random point in [0, 1). The holdout takes the lowest part and validation the highest: [0,
    0.1) and [0.9, 1) by default. So a larger share moves rows only from training to that side. A side for which the
    tenant uploaded files is not drawn (``validation``, ``holdout``).
    """
    points = _points(units, settings)
    sides = np.full(len(units), TRAIN, np.uint8)
    if holdout:
        sides[points < settings.holdout] = HOLDOUT
    if validation:
        sides[points >= 1 - settings.validation] = VALIDATION
    return sides


def fill_sides(
    units: np.ndarray, sides: np.ndarray, settings: SplitSettings, *, validation: bool = True, holdout: bool = True
) -> np.ndarray:
    """``sides``, in which a drawn side without a row takes the training unit whose point is nearest to its part.

    Few units often miss a side: with a tenth each, 15 miss one 4 times of 10. A unit of more than a quarter of the rows
    is not taken, and neither is the last one of training; then the side stays empty.
    """
    filled, points = sides.copy(), _points(units, settings)
    _, which, rows = np.unique(units, return_inverse=True, return_counts=True)
    small = (rows * 4 <= len(units))[which]
    for side, drawn, distances in ((HOLDOUT, holdout, points), (VALIDATION, validation, 1 - points)):
        left = filled == TRAIN
        free = np.flatnonzero(left & small)
        if drawn and len(free) and not (filled == side).any() and len(np.unique(which[left])) > 1:
            filled[units == units[free[np.argmin(distances[free])]]] = side
    return filled


def mostly(units: np.ndarray, which: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Rows (bool ``[n]``) of units of which more than half of the rows in ``of`` are in ``which``, a subset of
    ``of``."""
    # With a hash table: numpy would sort.
    codes = pa.array(units).dictionary_encode().indices.to_numpy()
    among, found = (np.bincount(codes[rows], minlength=codes.max(initial=-1) + 1) for rows in (of, which))
    return (2 * found > among)[codes]


def straddling(units: np.ndarray, sides: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Kept rows (bool ``[n]``) whose unit is set aside elsewhere: the holdout's rows stay, then validation's.

    Drawn sides never straddle; files that the tenant set aside may have prompts or groups of other rows.
    """
    lost = np.zeros(len(units), np.bool_)
    for side in (HOLDOUT, VALIDATION):
        stay = kept & ~lost
        # With a hash table: numpy would sort.
        set_aside = pa.array(units[stay & (sides == side)])
        aside = pc.is_in(pa.array(units), value_set=set_aside).to_numpy(zero_copy_only=False)
        lost |= stay & aside & (sides != side) & (sides != HOLDOUT)
    return lost


def _points(units: np.ndarray, settings: SplitSettings) -> np.ndarray:
    """A pseudo-random point in [0, 1) of each unit."""
    points: np.ndarray = (_mixed(units ^ _mixed(np.array([settings.seed], np.uint64))) >> np.uint64(11)) / 2.0**53
    return points


def _mixed(values: np.ndarray) -> np.ndarray:
    """SplitMix64's finalizer (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators")."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
