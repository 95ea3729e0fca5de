"""MinHash signatures of character 5-grams, and their bands (Broder 1997).

Signatures are those of ``datasketch.MinHash(num_perm=128, seed=1, scheme="affine32", hashfunc=xxh32)`` updated with the
UTF-8 of each 5-gram: permutation k of a hash h is ``a[k] * h + b[k] mod 2**32``. ``nearest.py`` hands them to it.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ft_assets.workers.datasets.similarity.hashing import PERMUTATIONS, fill_bands, fill_signatures, text_buffers

SEED, SCHEME = 1, "affine32"


@dataclass(frozen=True, slots=True)
class Banding:
    """``bands`` of ``rows`` permutations each: texts that agree in all rows of a band are compared."""

    bands: int
    rows: int


def banding(threshold: float) -> Banding:
    """The bands for a similarity threshold in [0.7, 1]: few candidates, and a recall of 0.99 (rounded) or more at it.

    | threshold    | bands x rows | recall at 0.70 | 0.75   | 0.80   | 0.85   | 0.90    | 0.95    |
    |--------------|--------------|----------------|--------|--------|--------|---------|---------|
    | 0.70 to 0.80 | 25 x 5       | 0.9900         | 0.9988 | 0.9999 | 1.0000 | 1.0000  | 1.0000  |
    | 0.80 to 0.85 | 21 x 6       | 0.9283         | 0.9853 | 0.9983 | 0.9999 | 1.0000  | 1.0000  |
    | 0.85 to 1.00 | 16 x 8       | 0.6132         | 0.8170 | 0.9470 | 0.9938 | 0.99988 | 1.0000  |
    """
    if not 0.7 <= threshold <= 1:
        raise ValueError(f"the threshold should be from 0.7 to 1, not {threshold}")
    if threshold < 0.8:
        return Banding(25, 5)
    return Banding(21, 6) if threshold < 0.85 else Banding(16, 8)


def signatures(texts: pa.Array | pa.ChunkedArray, seed: int = SEED) -> np.ndarray:
    """uint32 [n, 128], datasketch's ``hashvalues`` for ``seed``. A text of 1 to 4 characters is one shingle.

    "" has no shingle, so all its values are 2**32 - 1, as in a MinHash that was never updated.
    """
    offsets, data = text_buffers(texts)
    found = np.empty((len(offsets) - 1, PERMUTATIONS), np.uint32)
    fill_signatures(offsets, data, *_permutations(seed), found)
    return found


def band_hashes(texts: pa.Array | pa.ChunkedArray, threshold: float = 0.9) -> np.ndarray:
    """uint64 [n, bands], column-major: 16 bands for thresholds from 0.85 on (see ``banding``).

    Equal bands of signatures have equal hashes. The hashes of "" have no meaning: no text is near it.
    """
    offsets, data = text_buffers(texts)
    shape = banding(threshold)
    found = np.empty((shape.bands, len(offsets) - 1), np.uint64)
    fill_bands(offsets, data, *_permutations(), shape.rows, found)
    return found.T


def _permutations(seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """datasketch's parameters for ``seed``."""
    generator = np.random.RandomState(seed)
    a = generator.randint(0, 1 << 31, PERMUTATIONS, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return a, generator.randint(0, 1 << 32, PERMUTATIONS, dtype=np.uint32)
