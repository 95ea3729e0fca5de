"""The loss of a training as a picture that the server draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 640, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 28
_MOST_POINTS = 300
_TICKS = 4
Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A place on an axis, in the picture's units, and the number there."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Lines in the picture's units: ``train`` and ``valid`` as SVG's ``points``, "" for none; ``dots`` are validation's
    points. ``words`` say the same for who does not see it."""

    train: str
    valid: str
    dots: tuple[Point, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    words: str


def curve_of(steps: Sequence[dict[str, Any]], planned: int | None) -> Curve | None:
    """The losses of ``steps`` (rows with ``step``, ``loss``, ``validation_loss``) so far; None before the first.
    ``planned`` is the step at which the training ends."""
    train = _thin([(float(row["step"]), float(row["loss"])) for row in steps if "loss" in row])
    valid = [(float(row["step"]), float(row["validation_loss"])) for row in steps if "validation_loss" in row]
    if not train and not valid:
        return None
    last = max([step for step, _ in (*train, *valid)] + [float(planned or 1)])
    losses = [loss for _, loss in (*train, *valid)]
    low, high = min(losses), max(losses)
    room = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
    low, high = max(0.0, low - room), high + room

    def place(point: Point) -> Point:
        step, loss = point
        across = _LEFT + (WIDTH - _LEFT - _RIGHT) * step / last
        return round(across, 1), round(_TOP + (HEIGHT - _TOP - _BOTTOM) * (high - loss) / (high - low), 1)

    said = [f"{name} loss {points[-1][1]:.3f} at step {points[-1][0]:.0f}" for name, points in _named(train, valid)]
    return Curve(
        train=_line(map(place, train)),
        valid=_line(map(place, valid)),
        dots=tuple(map(place, valid)),
        across=tuple(
            Tick(at=place((last * part / _TICKS, low))[0], text=f"{last * part / _TICKS:.0f}")
            for part in range(_TICKS + 1)
        ),
        up=tuple(
            Tick(at=place((0, low + (high - low) * part / _TICKS))[1], text=f"{low + (high - low) * part / _TICKS:.3g}")
            for part in range(_TICKS + 1)
        ),
        words="Loss by step. " + ", ".join(said).capitalize() + ".",
    )


def _named(train: Sequence[Point], valid: Sequence[Point]) -> list[tuple[str, Sequence[Point]]]:
    return [(name, points) for name, points in (("training", train), ("validation", valid)) if points]


def _thin(points: Sequence[Point]) -> Sequence[Point]:
    """At most 300 of them, of which each is the mean of its neighbours."""
    each = -(-len(points) // _MOST_POINTS)
    if each <= 1:
        return points
    groups = [points[start : start + each] for start in range(0, len(points), each)]
    return [(group[-1][0], sum(loss for _, loss in group) / len(group)) for group in groups]


def _line(points: Any) -> str:
    return " ".join(f"{across},{down}" for across, down in points)
