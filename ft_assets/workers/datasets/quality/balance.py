"""Drops training rows of categories that have too many."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.settings.dataset.policy import BalanceSettings
from ft_assets.workers.datasets.quality.draw import draw_order


def balance(categories: pa.Array, keys: pa.FixedSizeBinaryArray, settings: BalanceSettings) -> np.ndarray:
    """Which training rows to keep, as a boolean mask ``[n]``.

    A category keeps at most ``max_ratio`` times the rows of the median category (never less than one): those with the
    lowest content keys. The choice depends neither on other categories nor on the order of rows. Rows without a
    category ("") are all kept.

    Args:
        categories: strings ``[n]``: the kind or group of each training row.
        keys: content keys ``[n]``, 32 bytes each.
        settings: the policy's ``balance``.
    """
    encoded = pc.dictionary_encode(categories)
    names = encoded.dictionary
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    sizes = np.bincount(codes, minlength=len(names))
    named = pc.not_equal(names, "").to_numpy(zero_copy_only=False)
    keep = np.ones(len(codes), np.bool_)
    if not named.any():
        return keep
    most = max(1, int(settings.max_ratio * float(np.median(sizes[named]))))
    for code in np.flatnonzero(named & (sizes > most)):
        rows = np.flatnonzero(codes == code)
        keep[rows[draw_order(keys.take(pa.array(rows)))[most:]]] = False
    return keep
