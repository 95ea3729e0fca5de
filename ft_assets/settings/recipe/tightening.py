"""A submission's additions to its recipe's gates: ``metric > value``, which can only make them stricter."""

import math
import re
from collections.abc import Sequence

from pydantic import ValidationError

from ft_assets.settings.catalogue.gates import GATES
from ft_assets.settings.catalogue.gates.scores import Score
from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.settings.ungated import NO_GATES, NoGates
from ft_resources.errors import UserError
from ft_resources.said import first_of
from ft_resources.strict import nearest

_FORM = re.compile(r"\s*([A-Za-z0-9_.\-]{1,200})\s*([<>])\s*([0-9.eE+\-]{1,30})\s*")
# Thresholds by their path in ``gates``, with the direction that is stricter.
THRESHOLDS: dict[str, str] = {
    f"{gate.setting}.{name}": direction for gate in GATES.values() for name, direction in gate.stricter.items()
}
_DEFAULTS = {gate.setting: gate.settings() for gate in GATES.values() if gate.settings is not None}
_WHERE = "gates of the submission"


def tighten(
    gates: GateSettings | NoGates, wishes: Sequence[str], measured: Sequence[str] | None = None
) -> GateSettings | NoGates:
    """The recipe's gates with ``wishes``, such as ``exact_match > 0.6`` or ``task_gain.min_relative > 0.1``.

    A safety or judge threshold that the recipe does not set makes that gate required. Of several thresholds for the
    same metric, the strictest counts.

    Args:
        measured: metrics and suite keys that the recipe measures; others are refused. None: not checked.

    Raises UserError for a threshold that is malformed, looser than the recipe's, or for something not measured, and
    for any wish where the recipe has no gates.
    """
    if gates == NO_GATES:
        if wishes:
            raise UserError(
                f"the recipe has no gates (gates: none), so {wishes[0]!r} cannot be added",
                where=_WHERE,
                remedy="Submit without further gates, or add gates in the recipe's next version.",
            )
        return gates
    stricter = {">": max, "<": min}
    strictest: dict[tuple[str, str], float] = {}
    for name, direction, value in map(_read, wishes):
        strictest[name, direction] = stricter[direction](value, strictest.get((name, direction), value))
    for (name, direction), value in sorted(strictest.items()):
        if name in THRESHOLDS:
            gates = _threshold(gates, name, direction, value)
        else:
            gates = _score(gates, name, direction, value, measured)
    return gates


def _read(wish: str) -> tuple[str, str, float]:
    found = _FORM.fullmatch(wish)
    try:
        value = float(found[3]) if found else math.nan
    except ValueError:
        value = math.nan
    if found is None or not math.isfinite(value):
        raise UserError(
            f"{wish!r} is not a gate",
            where=_WHERE,
            remedy="Write a metric, > or <, and a number, such as: exact_match > 0.6",
        )
    return found[1], found[2], value


def _threshold(gates: GateSettings, path: str, direction: str, value: float) -> GateSettings:
    section, field = path.split(".")
    # A gate that the recipe does not require starts from its defaults.
    strict, settings = THRESHOLDS[path], getattr(gates, section) or _DEFAULTS[section]
    if direction != strict or _looser(strict, value, getattr(settings, field)):
        raise _loosening(f"{path} {direction} {value:g}", f"{path} {strict} {getattr(settings, field):g}", strict)
    try:
        changed = type(settings).model_validate({**settings.model_dump(), field: value})
    except ValidationError as error:
        raise UserError(
            f"{path} {direction} {value:g}: {first_of(error)[1]}",
            where=_WHERE,
            remedy="Choose a value that can be reached.",
        ) from error
    return gates.model_copy(update={section: changed})


def _score(
    gates: GateSettings, metric: str, direction: str, value: float, measured: Sequence[str] | None
) -> GateSettings:
    if measured is not None and metric not in measured:
        raise UserError(
            f"{metric!r} is neither measured by the recipe nor one of its thresholds; "
            f"{nearest(metric, [*measured, *THRESHOLDS])}",
            where=_WHERE,
            remedy=f"Measured are {', '.join(measured)}; thresholds are {', '.join(THRESHOLDS)}.",
        )
    score = Score(metric=metric, better_than=value)
    strict = ">" if score.sign > 0 else "<"
    limits = {each.metric: each.better_than for each in gates.scores}
    if direction != strict or (metric in limits and _looser(strict, value, limits[metric])):
        known = f"{metric} {strict} {limits[metric]:g}" if metric in limits else f"a better {metric} than the base's"
        raise _loosening(f"{metric} {direction} {value:g}", known, strict)
    others = (each for each in gates.scores if each.metric != metric)
    return gates.model_copy(update={"scores": tuple(sorted((*others, score), key=lambda each: each.metric))})


def _looser(strict: str, value: float, limit: float) -> bool:
    return value < limit if strict == ">" else value > limit


def _loosening(wish: str, known: str, strict: str) -> UserError:
    return UserError(
        f"{wish} would loosen the recipe's gates ({known}): a submission may only tighten them",
        where=_WHERE,
        remedy=f"Ask for {'more' if strict == '>' else 'less'} than that, or use another recipe version.",
    )
