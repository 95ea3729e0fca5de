"""Brings every open submission one step further: prepare the dataset, prepare the recipe, train the pair."""

import time

import dagster as dg

from ft_assets.api import Present, RunState, Wanted
from ft_assets.graph.jobs.submissions import asset_jobs
from ft_assets.graph.retire_trials import retire_trials
from ft_assets.graph.runs import only_waits, under_way
from ft_assets.records.submissions import open_submissions
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import NoStore, UserError
from ft_sensors.launches import as_wanted, next_requests, read_tenants
from ft_sensors.ticks import at_most, said, sensor

# A tick has 60 s; reading one submission takes some milliseconds on a disk, and far more from a bucket. What is left
# over is the next tick's.
_BATCH, _TICK_S = 200, 30.0


@sensor(every=at_most(5), jobs=asset_jobs)
def submissions_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | dg.SkipReason:
    """Launch the next work of open submissions, and record how they ended."""
    try:
        records = store.store
    except NoStore as error:
        return dg.SkipReason(f"submissions cannot be read: {error}")
    began = time.monotonic()
    wanted: list[Wanted] = []
    problems: list[str] = []
    looked, last = 0, ""
    running = under_way(context.instance)
    tenants, readable = read_tenants()
    for submission in open_submissions(records, after=context.cursor or "", problems=problems):
        looked, last = looked + 1, submission.marker
        stages = running.get(submission.id, frozenset())
        if submission.driver != "caller" and only_waits(stages):
            # What it left is looked at when the run is over; most open submissions are in this state.
            runs = dict.fromkeys(stages, RunState.ACTIVE)
            wanted.append(Wanted(submission=submission, present=Present(done=frozenset()), runs=runs))
        elif submission.driver != "caller":
            try:
                wanted.append(as_wanted(context.instance, records, submission, tenants))
            except UserError as error:
                # One submission whose inputs cannot be read must not keep the others waiting.
                problems.append(f"{submission.id}: {error.what}")
        if looked == _BATCH or time.monotonic() - began > _TICK_S:
            break
    else:
        # All were looked at, so the next tick starts over.
        last = ""
    requests, finished = next_requests(context.instance, records, wanted, tenants, readable=readable)
    retired = _retire(context.instance, store, problems)
    for problem in problems:
        context.log.warning(problem)
    held, paused = sum(bool(item.present.held) for item in wanted), sum(item.paused for item in wanted)
    counted = ((held, "for a review of their dataset"), (paused, "paused"))
    why = ", ".join(f"{number} {words}" for number, words in counted if number)
    waiting = f"{len(wanted) - finished} wait" + (f" ({why})" if why else "")
    text = f"checked {looked} open submissions: {waiting}, {finished} ended"
    if retired:
        text += f"; retired {len(retired)} trials of sweeps"
    text = "; ".join([text, *problems])
    if requests:
        # A tick that launches has no sentence beside it; its log has.
        context.log.info(f"{len(requests)} launched; {text}")
        return dg.SensorResult(run_requests=requests, cursor=last)
    context.update_cursor(last)
    return said(text, worked=finished + len(retired))


def _retire(instance: dg.DagsterInstance, store: StoreResource, problems: list[str]) -> list[str]:
    try:
        return retire_trials(store.store, instance)
    except UserError as error:
        # The next tick tries again; no submission waits for it.
        problems.append(f"trials of sweeps could not be retired: {error.what}")
        return []
