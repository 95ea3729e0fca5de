"""Brings every open submission one step further: prepare the dataset, prepare the recipe, train the pair."""

import time
from functools import partial

import dagster as dg

from ft_assets import api
from ft_assets.api import Launch, Present, RunState, Wanted
from ft_assets.graph.failed_runs import failure_of_submission
from ft_assets.graph.jobs.submissions import asset_jobs
from ft_assets.graph.listed_keys import list_launched
from ft_assets.graph.retire_trials import retire_trials
from ft_assets.graph.run import launch_tags
from ft_assets.graph.runs import as_dagster_shows, only_waits, run_states, under_way
from ft_assets.records.pauses import read_pauses
from ft_assets.records.submissions import Submission, open_submissions
from ft_assets.settings import tags
from ft_assets.settings.tenants import NO_TENANTS, TenantsFile, load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import NoStore, StoreUnavailable, UserError
from ft_resources.run_states import ACTIVE_STATUSES
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
    tenants, readable = _tenants()
    for submission in open_submissions(records, after=context.cursor or "", problems=problems):
        looked, last = looked + 1, submission.marker
        stages = running.get(submission.id, frozenset())
        if submission.driver != "caller" and only_waits(stages):
            # What it left is looked at when the run is over; most open submissions are in this state.
            runs = dict.fromkeys(stages, RunState.ACTIVE)
            wanted.append(Wanted(submission=submission, present=Present(done=frozenset()), runs=runs))
        elif submission.driver != "caller":
            try:
                wanted.append(_wanted(context.instance, store, submission, tenants))
            except UserError as error:
                # One submission whose inputs cannot be read must not keep the others waiting.
                problems.append(f"{submission.id}: {error.what}")
        if looked == _BATCH or time.monotonic() - began > _TICK_S:
            break
    else:
        # All were looked at, so the next tick starts over.
        last = ""
    # Nobody may have more than their limit because it cannot be read.
    nowhere = {item.submission.tenant: 0 for item in wanted}
    places = _places(context.instance, wanted, tenants) if readable else nowhere
    failure_of = partial(failure_of_submission, context.instance, store.store)
    launches, finished = api.next_launches(wanted, places, failure_of=failure_of, store=store.store)
    list_launched(context.instance, launches)
    requests = [_request(launch, tenants) for launch in launches]
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


def _places(instance: dg.DagsterInstance, wanted: list[Wanted], tenants: TenantsFile) -> dict[str, int]:
    """Free training slots of each tenant with a limit, counting queued and running runs."""
    free = {}
    for tenant in {item.submission.tenant for item in wanted}:
        most = tenants.quota_of(tenant).concurrent
        if most is not None:
            under_way = dg.RunsFilter(tags={tags.TENANT: tenant, tags.TRAINS: "true"}, statuses=ACTIVE_STATUSES)
            free[tenant] = most - instance.get_runs_count(under_way)
    return free


def _wanted(instance: dg.DagsterInstance, store: StoreResource, submission: Submission, tenants: TenantsFile) -> Wanted:
    """The submission and its known state. Raises UserError for broken records, unless they end the submission."""
    pauses = read_pauses(store.store, submission)
    runs = run_states(instance, submission, pauses.resumed)
    try:
        found = api.present(submission, store=store.store, tenants=tenants)
        there = as_dagster_shows(instance, submission, found)
    except StoreUnavailable:
        raise
    except UserError as error:
        if RunState.ACTIVE in (*runs.stages.values(), *runs.trials.values()):
            raise
        there = api.impossible(error)
    return Wanted(
        submission=submission,
        present=there,
        runs=runs.stages,
        trial_runs=runs.trials,
        again=runs.again,
        paused=pauses.standing is not None,
        resumed=pauses.resumed,
    )


def _retire(instance: dg.DagsterInstance, store: StoreResource, problems: list[str]) -> list[str]:
    try:
        return retire_trials(store.store, instance)
    except UserError as error:
        # The next tick tries again; no submission waits for it.
        problems.append(f"trials of sweeps could not be retired: {error.what}")
        return []


def _tenants() -> tuple[TenantsFile, bool]:
    """The tenants file, and whether it can be read: where not, preparing goes on, and no training is launched."""
    try:
        return load_tenants(), True
    except UserError:
        return NO_TENANTS, False


def _request(action: Launch, tenants: TenantsFile) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=action.run_key,
        job_name=action.stage.value,
        partition_key=action.partition,
        tags=launch_tags(action, tenants),
    )
