"""``python -m benchmarks canary``: how often a rollout's decisions err, by simulation.

Requests go to both adapters by the weights of a rollout, and the decision is taken after every batch by the rules and
bounds of the product. *False rollback*: a candidate that is as good as the incumbent is taken back. *Missed
regression*: a candidate that is worse by the margin is not taken back within ``HORIZON`` comparisons, whether it went
to production or still waits. One kind of outcome counts, so that it has all of the error. The figures are of the worst
case.

*Whole* rollouts begin with a shadow stage, whose pairs are of that kind too: an outcome of both answers, or a judge's
verdict. Both stages may take a candidate back, each with its share of the error. The stage is as bad as it can be: as
short as it may be where it should find a regression, and long, as it waits for a rare kind, where it may err.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import Figure
from ft_assets.control.rollouts.evidence import ERROR
from ft_assets.control.rollouts.sequential import log_capital
from ft_assets.control.rollouts.shadow_evidence import SHARE
from ft_assets.settings.rollout_settings import MARGIN, MINIMUM, STEPS

TIMES = 2_000
BATCH = 50
HORIZON = 6_000
"""Blocks, each with an outcome of the candidate or more: 6,000 outcomes at least."""
SHARES = (0.5, 0.8, 0.95)
"""Good outcomes of the incumbent."""
SHORT, LONG = MINIMUM, 15 * MINIMUM
"""Pairs of a shadow stage that takes nothing back."""
KEYS = (
    *("canary_false_rollback", "canary_missed_regression"),
    *("canary_whole_false_rollback", "canary_whole_missed_regression"),
)
"""The figures that have a goal of the platform's."""
SEED = 20_260_501
_AT_ONCE = 250

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Ends:
    """How simulated rollouts ended: shares of all, and comparisons until half of them had ended.

    Args:
        in_shadow: those rolled back in the shadow stage; ``rolled_back`` counts them too.
    """

    rolled_back: float
    in_shadow: float
    completed: float
    median: float


def measure() -> list[Figure]:
    """The figures, by case and of the worst."""
    figures, false, missed, let_through = [], [], [], []
    whole_false, whole_missed = [], []
    for share in SHARES:
        same, worse = simulate(share, share), simulate(share - MARGIN, share)
        for name, ends, rate in (("same", same, share), ("worse", worse, share - MARGIN)):
            what, key = f"incumbent {share:.0%} good, candidate {rate:.0%}", f"{name}_{100 * share:.0f}"
            figures += [
                _seen(f"canary_rolled_back_{key}", f"{what}: rolled back", ends.rolled_back),
                _seen(f"canary_completed_{key}", f"{what}: completed", ends.completed),
                _seen(f"canary_median_{key}", f"{what}: comparisons until half had ended", ends.median),
            ]
        false.append(same.rolled_back)
        missed.append(1.0 - worse.rolled_back)
        let_through.append(worse.completed)
        same, worse = simulate(share, share, shadow=LONG), simulate(share - MARGIN, share, shadow=SHORT)
        for name, ends, rate, pairs in (("same", same, share, LONG), ("worse", worse, share - MARGIN, SHORT)):
            what, key = f"{pairs:,} pairs, then users: candidate {rate:.0%}", f"{name}_{100 * share:.0f}"
            figures += [
                _seen(f"canary_whole_rolled_back_{key}", f"{what}: rolled back", ends.rolled_back),
                _seen(f"canary_whole_in_shadow_{key}", f"{what}: of these by the pairs", ends.in_shadow),
            ]
        whole_false.append(same.rolled_back)
        whole_missed.append(1.0 - worse.rolled_back)
    return [
        *figures,
        _held("canary_regression_completed", "worse by the margin, and in production", max(let_through)),
        _held("canary_false_rollback", "as good, and rolled back", max(false)),
        _held("canary_missed_regression", f"worse by the margin, not rolled back in {HORIZON:,}", max(missed)),
        _held("canary_whole_false_rollback", f"as good, {LONG:,} pairs first, and rolled back", max(whole_false)),
        _held("canary_whole_missed_regression", f"worse, {SHORT:,} pairs first, not rolled back", max(whole_missed)),
    ]


def simulate(
    candidate: float,
    incumbent: float,
    *,
    times: int = TIMES,
    horizon: int = HORIZON,
    seed: int = SEED,
    shadow: int = 0,
) -> Ends:
    """Rollouts whose adapters have these shares of good outcomes, each until ``horizon`` blocks, after a shadow stage
    of ``shadow`` pairs."""
    error = ERROR * (1 - SHARE) if shadow else ERROR
    generator = np.random.default_rng(seed)
    weights = np.array(STEPS[:-1])[np.minimum(np.arange(horizon) // MINIMUM, len(STEPS) - 2)]
    looks = np.arange(horizon) % BATCH == BATCH - 1
    # The last weight below 100 has to have its minimum too.
    ready = looks & (np.arange(horizon) >= MINIMUM * (len(STEPS) - 1) - 1)
    back, done, early = [], [], []
    for begin in range(0, times, _AT_ONCE):
        number = min(_AT_ONCE, times - begin)
        early.append(_early(generator, candidate, incumbent, (number, shadow)) if shadow else np.full(number, np.inf))
        differences = _blocks(generator, candidate, incumbent, weights, number)
        worse = np.maximum.accumulate(log_capital(-differences, 0.0), axis=1) >= -np.log(error)
        as_good = np.maximum.accumulate(log_capital(differences, -MARGIN), axis=1) >= -np.log(ERROR)
        back.append(_first(worse & looks))
        done.append(_first(as_good & ~worse & ready))
    earlies = np.concatenate(early)
    backs, dones = np.minimum(earlies, shadow + np.concatenate(back)), shadow + np.concatenate(done)
    return Ends(
        rolled_back=float(((backs <= dones) & (backs < np.inf)).mean()),
        in_shadow=float((earlies < np.inf).mean()),
        completed=float((dones < backs).mean()),
        median=float(np.median(np.minimum(backs, dones))),
    )


def _early(generator: np.random.Generator, candidate: float, incumbent: float, shape: tuple[int, int]) -> Floats:
    """How many pairs there were when the shadow stage first showed a candidate worse. Shape (times,)."""
    good = generator.random((2, *shape)) < np.array([candidate, incumbent])[:, None, None]
    differences = good[0].astype(np.float64) - good[1]
    looks = np.arange(shape[1]) % BATCH == BATCH - 1
    worse = np.maximum.accumulate(log_capital(-differences, 0.0), axis=1) >= -np.log(ERROR * SHARE)
    return _first(worse & looks)


def _blocks(
    generator: np.random.Generator, candidate: float, incumbent: float, weights: Integers, times: int
) -> Floats:
    """Differences of blocks as ``differences`` makes them of requests that go to the candidate by chance: whoever is
    first has outcomes until the other has one. Shape (times, len(weights))."""
    share = np.broadcast_to(weights / 100, (times, len(weights)))
    first = generator.random(share.shape) < share
    ours = np.where(first, generator.geometric(1 - share), 1)
    theirs = np.where(first, 1, generator.geometric(share))
    return generator.binomial(ours, candidate) / ours - generator.binomial(theirs, incumbent) / theirs


def _first(happened: NDArray[np.bool_]) -> Floats:
    """How many blocks there were when it happened first; infinite where it never did."""
    return np.where(happened.any(axis=1), happened.argmax(axis=1) + 1.0, np.inf)


def _seen(key: str, what: str, value: float) -> Figure:
    return Figure(key=key, what=what, ours=value, peer=None, peer_is="", goal="reported", met=True)


def _held(key: str, what: str, value: float) -> Figure:
    return Figure(key=key, what=what, ours=value, peer=ERROR, peer_is="bound", goal=f"<= {ERROR:g}", met=value <= ERROR)
