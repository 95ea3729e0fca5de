"""Removes what work that is over has left behind, where the tenants file says how long it is kept."""

from datetime import UTC, datetime

import dagster as dg

from ft_assets import api
from ft_assets.graph.jobs.retention import collect_unreferenced_job
from ft_assets.graph.listed_keys import active_partitions
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import UserError
from ft_sensors.ticks import said, sensor

# A tick has 60 s. What is left over is the next tick's.
_MOST_OBJECTS, _TICK_S = 2000, 30.0


@sensor(every=600, jobs=[collect_unreferenced_job])
def leftovers_sensor(
    context: dg.SensorEvaluationContext, store: StoreResource, launcher: LauncherResource
) -> dg.SensorResult | dg.SkipReason:
    """Collect leftovers of attempts and writers, a part of the store each time. Once a day, launch the job that removes
    unreferenced artifacts."""
    today = datetime.now(UTC).date().isoformat()
    # A hint: the day for which the job was asked for, and the folder that the last tick came to.
    asked, _, after = (context.cursor or "").partition(" ")
    try:
        collected = api.collect_leftovers(
            busy=active_partitions(context.instance),
            launcher=launcher.launcher,
            after=after,
            most=_MOST_OBJECTS,
            seconds=_TICK_S,
            store=store.store,
        )
        daily = api.collects_unreferenced(store=store.store)
    except UserError as error:
        return dg.SkipReason(f"no leftovers are collected while a record cannot be read: {error}")
    for leftover in collected.dropped:
        context.log.info(f"removed {leftover.address}: {leftover.what} ({leftover.why})")
    for problem in collected.problems:
        context.log.warning(problem)
    for path in collected.ended:
        context.log.info(f"ended {path}: no heartbeat")
    if daily and asked != today:
        request = dg.RunRequest(run_key=f"collect_unreferenced:{today}", job_name=collect_unreferenced_job.name)
        return dg.SensorResult(run_requests=[request], cursor=f"{today} {collected.last}")
    context.update_cursor(f"{asked} {collected.last}")
    return said(_said(collected), worked=collected.dropped or collected.ended)


def _said(collected: api.PlacesCollected) -> str:
    if not collected.looked:
        return "no retention.leftovers rule applies here"
    gone = f"{len(collected.dropped)} leftovers removed ({collected.objects} objects, {collected.size / 1e6:.1f} MB)"
    text = f"checked {collected.looked} addresses: {gone}, {len(collected.ended)} attempts ended"
    if collected.problems:
        text += f", {len(collected.problems)} skipped because they cannot be read (first: {collected.problems[0]})"
    return f"{text}; continues after {collected.last}" if collected.last else text
