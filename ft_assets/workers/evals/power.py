"""What a number of samples can show. No numpy here: the code location loads this with the gates."""

import math
from statistics import NormalDist

CONFIDENCE = 0.95


def minimum_detectable(half_width: float, *, power: float = 0.8, confidence: float = CONFIDENCE) -> float:
    """The smallest true effect whose interval excludes 0 with probability ``power`` (Cohen 1988), given the half width
    of the observed interval; same unit."""
    return half_width * (1 + NormalDist().inv_cdf(power) / two_sided_z(confidence))


def samples_to_decide(n: int, half_width: float, room: float) -> int | None:
    """How many samples in all would narrow an interval of ``half_width`` at ``n`` to ``room``; None if no number would,
    or only a hundred million times as many. Widths fall with the square root of n."""
    if room <= half_width * 1e-4:
        return None
    # Minus a small margin: a whole number that rounding puts just above itself would become one too many.
    return max(n + 1, math.ceil(n * (half_width / room) ** 2 * (1 - 1e-9)))


def two_sided_z(confidence: float) -> float:
    """Standard errors on either side of an interval with this confidence: 1.96 for 95 %."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)
