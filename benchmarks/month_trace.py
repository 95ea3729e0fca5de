"""A month of submissions by tenants of three tiers, and the spot nodes that are lost in it: drawn, always the same."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

T = TypeVar("T")

DAY_S, HOUR_S = 86_400.0, 3_600.0
# Of all submissions by tier, the part of each tier's that runs on spot nodes, and sizes.
_ASKED = {"premium": 0.2, "standard": 0.4, "free": 0.4}
_ON_SPOT = {"premium": 0.1, "standard": 0.5, "free": 0.9}
_GPUS = {1: 0.5, 2: 0.25, 4: 0.15, 8: 0.1}
# Afternoons have three times as many as nights.
_SWING = 0.5
_LONG_TAIL = 0.8
_LOST_A_DAY = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """One training. ``seconds`` is what it takes on its GPUs if nothing disturbs it."""

    key: str
    at: float
    tier: str
    tenant: str
    gpus: int
    seconds: float
    spot: bool


def draw_month(
    tenants: Mapping[str, Sequence[str]],
    *,
    gpus: Mapping[bool, int],
    load: float,
    per_day: float,
    days: float,
    seed: int,
) -> list[Submission]:
    """Submissions in the order in which they come.

    Args:
        tenants: by tier.
        gpus: that there are on demand (False) and on spot nodes (True).
        load: GPU-hours asked for, as a part of those that there are, of both kinds alike.
    """
    drawn = random.Random(seed)
    found: list[Submission] = []
    at = 0.0
    while (at := at + drawn.expovariate(per_day * (1 + _SWING) / DAY_S)) < days * DAY_S:
        if drawn.random() * (1 + _SWING) > 1 + _SWING * math.sin(2 * math.pi * (at / DAY_S - 0.375)):
            continue
        tier = _one_of(_ASKED, drawn)
        found.append(
            Submission(
                key=f"s{len(found):05d}",
                at=at,
                tier=tier,
                tenant=drawn.choice(tenants[tier]),
                gpus=_one_of(_GPUS, drawn),
                seconds=drawn.lognormvariate(0.0, _LONG_TAIL),
                spot=drawn.random() < _ON_SPOT[tier],
            )
        )
    scale = {}
    for spot, there in gpus.items():
        asked = sum(each.gpus * each.seconds for each in found if each.spot is spot)
        scale[spot] = load * there * days * DAY_S / asked
    return [replace(each, seconds=each.seconds * scale[each.spot]) for each in found]


def draw_losses(*, nodes: int, days: float, seed: int) -> list[float]:
    """When a spot node is taken away: each one every other day."""
    drawn = random.Random(seed)
    found, at = [], 0.0
    while (at := at + drawn.expovariate(nodes * _LOST_A_DAY / DAY_S)) < days * DAY_S:
        found.append(at)
    return found


def _one_of(parts: Mapping[T, float], drawn: random.Random) -> T:
    return drawn.choices(list(parts), list(parts.values()))[0]
