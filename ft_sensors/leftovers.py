"""Removes what work that is over has left behind, where the tenants file says how long it is kept."""

from datetime import UTC, datetime

import dagster as dg

from ft_assets.retention.collect import unreferenced_days
from ft_assets.retention.jobs import collect_unreferenced_job
from ft_assets.retention.places import PlacesCollected, collect_places
from ft_assets.tenants import load_tenants
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import UserError
from ft_resources.execution import Execution
from ft_sensors.orphans import active_partitions

# A tick has 60 s. What is left over is the next tick's.
_MOST_OBJECTS, _TICK_S = 2000, 30.0


@dg.sensor(jobs=[collect_unreferenced_job], minimum_interval_seconds=600, default_status=dg.DefaultSensorStatus.RUNNING)
def leftovers_sensor(
    context: dg.SensorEvaluationContext, store: StoreResource, launcher: LauncherResource
) -> dg.SensorResult | dg.SkipReason:
    """Collect leftovers of attempts and writers, a part of the store each time, and once a day ask for the job that
    looks for artifacts that nothing leads to."""
    today = datetime.now(UTC).date().isoformat()
    # A hint: the day for which the job was asked for, and the folder that the last tick came to.
    asked, _, after = (context.cursor or "").partition(" ")
    try:
        tenants = load_tenants()
        collected = collect_places(
            store.artifacts,
            tenants,
            busy=active_partitions(context.instance),
            execution=Execution(store=store.store, launcher=launcher.launcher),
            after=after,
            most=_MOST_OBJECTS,
            seconds=_TICK_S,
        )
        daily = bool(unreferenced_days(store.store, tenants))
    except UserError as error:
        return dg.SkipReason(f"no leftovers are collected while something cannot be read: {error}")
    for leftover in collected.dropped:
        context.log.info(f"removed {leftover.address}: {leftover.what} ({leftover.why})")
    for problem in collected.problems:
        context.log.warning(problem)
    for path in collected.ended:
        context.log.info(f"ended {path}: no sign of life")
    if daily and asked != today:
        request = dg.RunRequest(run_key=f"collect_unreferenced:{today}", job_name=collect_unreferenced_job.name)
        return dg.SensorResult(run_requests=[request], cursor=f"{today} {collected.last}")
    context.update_cursor(f"{asked} {collected.last}")
    return dg.SkipReason(_said(collected))


def _said(collected: PlacesCollected) -> str:
    if not collected.looked:
        return "no rule about leftovers applies to anything here"
    gone = f"{len(collected.dropped)} leftovers removed ({collected.objects} objects, {collected.size / 1e6:.1f} MB)"
    said = f"looked at {collected.looked} addresses: {gone}, {len(collected.ended)} attempts ended"
    if collected.problems:
        said += f", {len(collected.problems)} left alone as they cannot be read (first: {collected.problems[0]})"
    return f"{said}; goes on behind {collected.last}" if collected.last else said
