"""Which side a row is on: a function of its content (or group) and the seed, so other rows never move it."""

import hashlib
from enum import StrEnum

from ft_assets.datasets.policy import SplitSettings


class Split(StrEnum):
    """The three sides, named as their files."""

    TRAIN = "train"
    VALIDATION = "validation"
    HOLDOUT = "holdout"


def split_of(key: bytes, group: str, settings: SplitSettings) -> Split:
    """The side of an example with content key ``key`` and group ``group`` ("" where rows are not grouped).

    A point in [0, 1) is drawn from sha256; the holdout takes the lowest part and validation the highest: [0, 0.1)
    and [0.9, 1) by default. So growing one share moves rows from training to that side and no others.
    """
    unit = b"group:" + group.encode() if settings.group_by else b"example:" + key
    drawn = hashlib.sha256(f"{settings.seed}:".encode() + unit).digest()
    point = int.from_bytes(drawn[:8]) / 2**64
    if point < settings.holdout:
        return Split.HOLDOUT
    if point >= 1 - settings.validation:
        return Split.VALIDATION
    return Split.TRAIN
