"""How sensors are declared, how often they look, and what a tick that launches no run says of itself.

Dagster 1.13 gives such a tick the status SKIPPED whatever it did, with one sentence beside it and the lines of its log:
only a run request, or a reaction to a run, makes it SUCCESS. So the sentence begins with whether there was work.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from ft_assets.api import Step
from ft_resources.environment import whole_number
from ft_resources.errors import LauncherRefusal, UserError

WORKED = "worked"
IDLE = "nothing to do"


def sensor(*, every: int, jobs: Sequence[Any] | None = None) -> Callable[[Callable[..., Any]], dg.SensorDefinition]:
    """A sensor that looks every so many seconds and is on from the start; its docstring is its description in the UI.

    Dagster itself takes no description from a docstring here.
    """

    def declared(tick: Callable[..., Any]) -> dg.SensorDefinition:
        return dg.sensor(
            jobs=jobs,
            minimum_interval_seconds=every,
            default_status=dg.DefaultSensorStatus.RUNNING,
            description=" ".join((inspect.getdoc(tick) or "").split()),
        )(tick)

    return declared


def at_most(seconds: int) -> int:
    """Seconds between two ticks: the usual interval, or ``FT_SENSOR_SECONDS`` if that is less. A small store may be
    checked more often than one with thousands of lines, whose ticks take longer.
    """
    return min(seconds, whole_number("FT_SENSOR_SECONDS", seconds, at_least=1))


def said(text: str, *, worked: object) -> dg.SkipReason:
    """The tick's sentence ``text``; ``worked`` is truthy if the tick changed anything."""
    return dg.SkipReason(f"{WORKED if worked else IDLE}: {text}")


def take(context: dg.SensorEvaluationContext, step: Callable[[], Step], cannot: str) -> dg.SkipReason:
    """Take a step and show it; ``cannot`` begins the sentence where it cannot be taken, and the cursor stays then."""
    try:
        done = step()
    except (UserError, LauncherRefusal) as error:
        return dg.SkipReason(f"{cannot}: {error}")
    for line in done.log:
        context.log.info(line)
    for line in done.warnings:
        context.log.warning(line)
    context.update_cursor(done.after)
    return said(done.said, worked=done.worked)
