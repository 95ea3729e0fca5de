"""The few places in an array of texts that may hold personal data or secrets."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ft_assets.workers.datasets.buffers import text_buffers
from ft_assets.workers.datasets.screening.tables import BITS, IBAN_LENGTH, NAME_ENDS, PREFIXES


class Candidates:
    """Places, ordered by text: ``index``, ``kind`` (see ``tables``), and bytes ``start`` to ``end`` counted from the
    text's start. ``fold``: indices of texts whose characters must be replaced before they can be read (see
    ``folding``); such texts have no places."""

    def __init__(self, places: npt.NDArray[np.int32], fold: npt.NDArray[np.int32]) -> None:
        self.index, self.kind, self.start, self.end = places
        self.fold = fold


def find_candidates(texts: pa.StringArray) -> Candidates:
    """The places in ``texts`` (no nulls) that a recogniser should check."""
    # Importing numba takes time, and callers that only read types and constants here do not need it.
    from ft_assets.workers.datasets.screening.scan import scan

    offsets, data = text_buffers(texts)
    capacity = 1024 + len(texts)
    while True:
        places = np.empty((4, capacity), np.int32)
        fold = np.zeros(len(texts), np.bool_)
        found = scan(BITS, PREFIXES, NAME_ENDS, IBAN_LENGTH, data, offsets, places, fold)
        if found <= capacity:
            break
        capacity = found
    places = places[:, :found]
    folded = np.flatnonzero(fold).astype(np.int32)
    if len(folded):
        places = places[:, ~fold[places[0]]]
    return Candidates(places, folded)
