"""What a given number of samples can show. No numpy here: the code location loads this with the gates."""

import math
from collections.abc import Callable
from statistics import NormalDist

CONFIDENCE = 0.95
POWER = 0.8
# Probability beyond each end of an interval.
TAIL = (1 - CONFIDENCE) / 2
Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
"""Standard errors from the estimate to each end of an interval: 1.96 for 95 %."""
_POWER_Z = NormalDist().inv_cdf(POWER)
# Unknown before a training, so assumed from measured trainings and simulations (docs/explanation/gates.md).
# Share of items that a training flips by chance, evenly both ways: 3 to 6 of 100 for careful adapters.
FLIPS = 0.10
# How much one row's loss changes more or less than another's: as a share of the base's loss, and in nats per token.
LOSS_SPREAD = 0.3
NATS_SPREAD = 0.5
_MOST_SAMPLES = 10_000_000


def minimum_detectable(half_width: float) -> float:
    """The smallest true effect whose interval excludes 0 with probability ``POWER`` (Cohen 1988), given the half width
    of the observed interval; same unit."""
    return half_width * (1 + _POWER_Z / Z)


def samples_to_decide(n: int, half_width: float, room: float) -> int | None:
    """How many samples in all would narrow an interval of ``half_width`` at ``n`` to ``room``; None if no number would,
    or only a hundred million times as many. Widths fall with the square root of n."""
    if room <= half_width * 1e-4:
        return None
    # Minus a small margin: a whole number that rounding puts just above itself would become one too many.
    return max(n + 1, math.ceil(n * (half_width / room) ** 2 * (1 - 1e-9)))


def most_likely_share(seen: int, n: int) -> float:
    """Upper end of the exact interval of a share that ``seen`` of ``n`` samples show (Clopper & Pearson 1934,
    Biometrika 26, 404-413). With none seen it is 1 - (alpha/2)^(1/n), about 3.7 / n: the "rule of three" of Hanley &
    Lippman-Hand 1983 (JAMA 249, 1743-1745) for two sides."""
    if seen >= n:
        return 1.0
    low, high = seen / n, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(seen, n, middle) > TAIL else (low, middle)
    return high


def _at_most(seen: int, n: int, share: float) -> float:
    """Probability of at most ``seen`` of ``n``, each with probability ``share`` in (0, 1)."""
    odds, whole = math.log(share) - math.log1p(-share), math.lgamma(n + 1) + n * math.log1p(-share)
    return math.fsum(math.exp(whole - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * odds) for k in range(seen + 1))


def samples_to_see(share: float) -> int | None:
    """The fewest samples that, if none of them shows it, leave at most ``share`` possible; None for a share of 0."""
    if share >= 1:
        return 1
    return math.ceil(math.log(TAIL) / math.log1p(-share) - 1e-9) if share > 0 else None


def fewest(enough: Callable[[int], bool]) -> int | None:
    """The fewest samples for which ``enough`` is true, as it then is for more; None if it is false for ten million."""
    most = 1
    while not enough(most):
        most *= 2
        if most > _MOST_SAMPLES:
            return None
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def gain_shown(n: int) -> float:
    """The smallest gain of a share that ``n`` pairs of right or wrong answers show 8 times of 10, where ``FLIPS`` of
    them change by chance (Connor 1987, Biometrics 43, 207-211: the gain d with
    n d^2 = (z sqrt(f + d) + z' sqrt(f + d - d^2))^2)."""
    low, high = 0.0, 1.0
    for _ in range(40):
        gain = (low + high) / 2
        changed = FLIPS + gain
        width = Z * math.sqrt(changed) + _POWER_Z * math.sqrt(changed - gain * gain)
        low, high = (low, gain) if gain * math.sqrt(n) >= width else (gain, high)
    return high


def fall_shown(n: int, spread: float) -> float:
    """The smallest mean fall that ``n`` rows show 8 times of 10, if ``spread`` is the falls' standard deviation."""
    return (Z + _POWER_Z) * spread / math.sqrt(n)


def chance_of_no_drop(n: int, max_drop: float, margin: float) -> float:
    """Probability that a candidate as good as its base passes a regression gate on ``n`` items of which ``FLIPS``
    flip; limits as shares. The normal approximation of the gate's rule."""
    error = math.sqrt(FLIPS / n)
    limit = max_drop + margin
    room = min(max_drop, limit - Z * error, limit - most_likely_share(0, n))
    return NormalDist().cdf(room / error)


def chance_of_few_faults(n: int, faults: float, limit: float, margin: float) -> float:
    """Probability that a candidate with this true share of faults passes a gate on a rate: observed at most ``limit``,
    and the end of Wilson's interval at most ``limit + margin``."""
    most = min(1.0, limit + margin)
    room = min(limit, most - Z * math.sqrt(most * (1 - most) / n))
    return _at_most(min(n, math.floor(n * room + 1e-9)), n, faults) if room >= 0 else 0.0
