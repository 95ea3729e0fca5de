"""The values of each trial of a sweep: every combination, or random draws that depend only on the seed."""

import hashlib
import itertools
import math
from collections.abc import Mapping
from typing import Any

from ft_assets.settings.recipe.sweep import Range, SweepSettings

Trial = dict[str, Any]
# A random search that finds nothing new this often in a row has practically found everything.
_TRIES = 1000


def draw(sweep: SweepSettings, limit: int) -> list[Trial]:
    """Values by dotted path for each trial, in a fixed order. Raises ValueError for more than ``limit`` of them."""
    asked = sweep.trials or math.prod(len(values) for values in _lists(sweep).values())
    if asked > limit:
        raise ValueError(f"this sweep has {asked:,} trials; the limit is {limit}")
    return _grid(sweep) if sweep.search == "grid" else _random(sweep, asked)


def _lists(sweep: SweepSettings) -> Mapping[str, tuple[Any, ...]]:
    return {path: values for path, values in sweep.parameters.items() if not isinstance(values, Range)}


def _grid(sweep: SweepSettings) -> list[Trial]:
    lists = _lists(sweep)
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]


def _random(sweep: SweepSettings, trials: int) -> list[Trial]:
    found: dict[str, Trial] = {}
    number, missed = 0, 0
    while len(found) < trials:
        values = {path: _drawn(choice, _share(sweep.seed, path, number)) for path, choice in sweep.parameters.items()}
        number += 1
        missed = 0 if repr(values) not in found else missed + 1
        found.setdefault(repr(values), values)
        if missed == _TRIES:
            raise ValueError(f"only {len(found)} different trials can be drawn, and {trials} are requested")
    return list(found.values())


def _share(seed: int, path: str, number: int) -> float:
    """A number in [0, 1) that depends only on its arguments, on every machine and in every version of Python."""
    digest = hashlib.sha256(f"{seed}:{path}:{number}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def _drawn(choice: Any, share: float) -> Any:
    if not isinstance(choice, Range):
        return choice[int(share * len(choice))]
    whole = isinstance(choice.low, int) and isinstance(choice.high, int)
    low, high = float(choice.low), float(choice.high) + (1 if whole else 0)
    if choice.log:
        value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    else:
        value = low + share * (high - low)
    # Three digits are readable, and more precise than such a setting needs.
    return min(max(math.floor(value), choice.low), choice.high) if whole else _rounded(value, low, high)


def _rounded(value: float, low: float, high: float) -> float:
    return min(max(float(f"{value:.3g}"), low), high)
