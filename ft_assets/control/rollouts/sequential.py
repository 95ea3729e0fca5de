"""Always-valid bounds for the mean of bounded differences: they may be looked at after every outcome.

Testing by betting, after Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (JRSS B,
2024, arXiv:2010.09686). Against the claim that differences in [-1, 1] have a mean of at most ``d``, a gambler who
stakes the share c of their capital multiplies it by 1 - c + c (1 + x) / (1 + d) with each difference x. If the claim
holds, capital does not grow on average, so by Ville's inequality it ever reaches 1/error with probability at most
``error``. The capital here is the mean over fixed stakes, which is a bet of its own and needs no tuning. Nothing is
assumed of the distribution, and nothing is asymptotic. What is assumed: each difference has the same mean given all
earlier ones.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # It imports slowly, and only who weighs outcomes needs it.
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

STAKES = tuple(2.0 ** (-k / 2) for k in range(1, 13))
"""From 0.71, best for rare outcomes that become frequent, to 0.016, best for changes of a point or two."""
_TOLERANCE = 1e-4


def log_capital(differences: "ArrayLike", at_most: float, stakes: Sequence[float] = STAKES) -> "NDArray[np.float64]":
    """Logarithm of the capital after each difference, won against a mean of at most ``at_most`` (above -1).

    Args:
        differences: shape (..., n), each in [-1, 1]; the last axis is time.

    Returns: shape (..., n).
    """
    import numpy as np

    gains = (1.0 + np.asarray(differences, dtype=np.float64)) / (1.0 + at_most) - 1.0
    total = np.full(gains.shape, -np.inf)
    for stake in stakes:
        total = np.logaddexp(total, np.cumsum(np.log1p(stake * gains), axis=-1))
    return total - np.log(len(stakes))


def exceeds(differences: "ArrayLike", at_most: float, error: float) -> bool:
    """Whether it was ever shown that the mean is above ``at_most``; wrong with probability at most ``error``."""
    capital = log_capital(differences, at_most)
    return bool(capital.size) and float(capital.max()) >= -math.log(error)


def lower_bound(differences: "ArrayLike", error: float) -> float:
    """What the mean was shown to exceed: it is ever above the mean with probability at most ``error``.

    Found by bisection, as capital falls with the claimed mean; -1 where nothing was shown.
    """
    found, beyond = -1.0, 1.0
    while beyond - found > _TOLERANCE:
        middle = (found + beyond) / 2
        if exceeds(differences, middle, error):
            found = middle
        else:
            beyond = middle
    return found


def upper_bound(differences: "ArrayLike", error: float) -> float:
    """As ``lower_bound``, from above; 1 where nothing was shown."""
    import numpy as np

    return -lower_bound(-np.asarray(differences, dtype=np.float64), error)
