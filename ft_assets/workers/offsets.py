"""Offsets of concatenated things."""

import numpy as np
from numpy.typing import NDArray


def offsets_of(lengths: NDArray[np.integer] | NDArray[np.bool_]) -> NDArray[np.int64]:
    """Start offsets of things of these lengths, and the end of the last one, int64 [things + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
