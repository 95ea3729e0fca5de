"""The unpacked mode: a window is one example, and windows of similar length are adjacent."""

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.packs.format import Layout


def one_by_one(lengths: NDArray[np.int64], *, max_length: int, seed: int, bucket: int) -> Layout:
    """One window per example, in blocks of ``bucket`` windows of similar length; the blocks in an order by ``seed``.

    Windows read together then have about the same size, which bounds a step's memory without making every epoch run
    from short to long: ``Order(block=bucket)`` permutes the blocks. Only the last block may be smaller.

    Args:
        lengths: int64 [examples, documents each]: document ``j`` of example ``i`` is number ``i * documents + j``.
        max_length: most tokens of a document; a window has all documents of its example.
        seed: determines the order of blocks, and of examples of equal length.
        bucket: windows per block.

    Raises ValueError for a length outside 1 .. max_length or a bucket below 1.
    """
    if bucket < 1:
        raise ValueError("a bucket has at least 1 window")
    if lengths.size and not (lengths.min() >= 1 and lengths.max() <= max_length):
        raise ValueError(f"document lengths must lie in 1 .. {max_length}")
    examples, each = lengths.shape
    # Raw draws, not a Generator's methods: only raw draws are guaranteed to stay the same in other NumPy versions.
    draws = np.random.PCG64(seed)
    by_length = np.lexsort((draws.random_raw(examples), lengths.sum(axis=1))) if examples else np.empty(0, np.int64)
    full = examples // bucket
    blocks = np.argsort(draws.random_raw(full), kind="stable") if full else np.empty(0, np.int64)
    order = np.concatenate(
        [by_length[: full * bucket].reshape(full, bucket)[blocks].reshape(-1), by_length[full * bucket :]]
    )
    documents = order[:, None] * each + np.arange(each)
    return Layout(order=documents.reshape(-1).astype(np.int64), window_offsets=np.arange(examples + 1) * each)
