"""The few places in an array of texts that may hold personal data or secrets."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.workers.datasets.buffers import text_buffers
from ft_assets.workers.datasets.screening.tables import BEGINNINGS, BITS, IBAN_LENGTH, ID, MASKED, NAME_ENDS, TEXT

_TWO_DIGITS_IN_A_WORD = r"[0-9]\S{0,6}[0-9]"


class Candidates:
    """Places, ordered by text: ``index``, ``kind`` (see ``tables``), and bytes ``start`` to ``end`` counted from the
    text's start. ``fold``: indices of texts whose characters must be replaced before they can be read (see
    ``folding``); such texts have no places."""

    def __init__(self, places: npt.NDArray[np.int32], fold: npt.NDArray[np.int32]) -> None:
        self.index, self.kind, self.start, self.end = places
        self.fold = fold


def find_candidates(texts: pa.StringArray, *, ids: bool = False, names: bool = False) -> Candidates:
    """The places in ``texts`` (no nulls) that a recogniser should check; with ``ids`` also those of national numbers,
    with ``names`` also each text as a whole."""
    # Importing numba takes time, and callers that only read types and constants here do not need it.
    from ft_assets.workers.datasets.screening.hidden import find_hidden, find_masked
    from ft_assets.workers.datasets.screening.scan import scan

    offsets, data = text_buffers(texts)
    capacity = 1024 + len(texts)
    while True:
        places = np.empty((4, capacity), np.int32)
        found = scan(BITS, BEGINNINGS, NAME_ENDS, IBAN_LENGTH, data, offsets, places)
        if found <= capacity:
            break
        capacity = found
    places = places[:, :found]
    fold = np.zeros(len(texts), np.bool_)
    find_hidden(BITS, data, offsets, fold)
    folded = np.flatnonzero(fold).astype(np.int32)
    if len(folded):
        places = places[:, ~fold[places[0]]]
    masked = np.zeros(len(texts), np.bool_)
    find_masked(data, offsets, masked)
    places = _with_whole_texts(places, MASKED, masked & ~fold, offsets)
    if ids:
        numbers = pc.match_substring_regex(texts, _TWO_DIGITS_IN_A_WORD).to_numpy(zero_copy_only=False)
        places = _with_whole_texts(places, ID, numbers & ~fold, offsets)
    if names:
        places = _with_whole_texts(places, TEXT, (np.diff(offsets) > 0) & ~fold, offsets)
    return Candidates(places, folded)


def _with_whole_texts(
    places: npt.NDArray[np.int32], kind: int, texts: npt.NDArray[np.bool_], offsets: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """``places`` and one more of ``kind`` for each of ``texts``, ordered by text."""
    if not texts.any():
        return places
    at = np.flatnonzero(texts).astype(np.int32)
    whole = np.stack([at, np.full_like(at, kind), np.zeros_like(at), np.diff(offsets)[at].astype(np.int32)])
    places = np.concatenate([places, whole], axis=1)
    return places[:, np.argsort(places[0], kind="stable")]
