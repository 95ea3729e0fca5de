"""Brings every open submission one step further: prepare the dataset, prepare the recipe, train the pair."""

import time

import dagster as dg
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

from ft_assets import tags
from ft_assets.submissions.jobs import prepare_dataset, prepare_recipe, train_pair, train_trial
from ft_assets.submissions.plan import Launch, Present, RunState, Wanted, plan
from ft_assets.submissions.present import present
from ft_assets.submissions.record import Submission, open_submissions
from ft_assets.submissions.run import launch_tags, record_end, register_launched
from ft_assets.submissions.runs import as_dagster_shows, only_waits, run_states, under_way
from ft_assets.sweeps.retiring import retire_trials
from ft_assets.tenants import TenantsFile, load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import StoreUnavailable, UserError
from ft_sensors.pace import at_most

# A tick has 60 s; reading one submission takes some milliseconds on a disk, and far more from a bucket. What is left
# over is the next tick's.
_BATCH, _TICK_S = 200, 30.0


@dg.sensor(
    jobs=[prepare_dataset, prepare_recipe, train_trial, train_pair],
    minimum_interval_seconds=at_most(5),
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def submissions_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | dg.SkipReason:
    """Launch what open submissions need next, and record how they ended."""
    began = time.monotonic()
    wanted: list[Wanted] = []
    problems: list[str] = []
    looked, last = 0, ""
    running = under_way(context.instance)
    for submission in open_submissions(store.store, after=context.cursor or "", problems=problems):
        looked, last = looked + 1, submission.marker
        stages = running.get(submission.id, frozenset())
        if submission.driver != "caller" and only_waits(stages):
            # What it left is looked at when the run is over; most open submissions are in this state.
            runs = dict.fromkeys(stages, RunState.ACTIVE)
            wanted.append(Wanted(submission=submission, present=Present(done=frozenset()), runs=runs))
        elif submission.driver != "caller":
            try:
                wanted.append(_wanted(context.instance, store, submission))
            except UserError as error:
                # One submission whose inputs cannot be read must not keep the others waiting.
                problems.append(f"{submission.id}: {error.what}")
        if looked == _BATCH or time.monotonic() - began > _TICK_S:
            break
    else:
        # All were looked at, so the next tick starts over.
        last = ""
    launches: list[Launch] = []
    finished = 0
    for action in plan(wanted, _places(context.instance, wanted)):
        if isinstance(action, Launch):
            launches.append(action)
        else:
            record_end(store.store, action)
            finished += 1
    register_launched(context.instance, launches)
    tenants = _tenants()
    requests = [_request(launch, tenants) for launch in launches]
    retired = _retire(context.instance, store, problems)
    for problem in problems:
        context.log.warning(problem)
    if requests:
        return dg.SensorResult(run_requests=requests, cursor=last)
    context.update_cursor(last)
    held = sum(bool(item.present.held) for item in wanted)
    waiting = f"{len(wanted) - finished} wait" + (f" ({held} for a person to look at their dataset)" if held else "")
    text = f"looked at {looked} open submissions: {waiting}, {finished} ended"
    if retired:
        text += f"; retired {len(retired)} trials of sweeps"
    return dg.SkipReason("; ".join([text, *problems]))


def _places(instance: dg.DagsterInstance, wanted: list[Wanted]) -> dict[str, int]:
    """How many more trainings each tenant with a limit may have at once, by the runs that are under way or queued."""
    try:
        tenants = load_tenants()
    except UserError:
        # Nobody may have more than their limit because it cannot be read.
        return {item.submission.tenant: 0 for item in wanted}
    free = {}
    for tenant in {item.submission.tenant for item in wanted}:
        most = tenants.quota_of(tenant).concurrent
        if most is not None:
            under_way = dg.RunsFilter(tags={tags.TENANT: tenant, tags.TRAINS: "true"}, statuses=NOT_FINISHED_STATUSES)
            free[tenant] = most - instance.get_runs_count(under_way)
    return free


def _wanted(instance: dg.DagsterInstance, store: StoreResource, submission: Submission) -> Wanted:
    """The submission with what is known of it. Raises UserError for broken records, unless it can be ended by them."""
    runs = run_states(instance, submission)
    try:
        there = as_dagster_shows(instance, submission, present(store.artifacts, submission))
    except StoreUnavailable:
        raise
    except UserError as error:
        if RunState.ACTIVE in (*runs.stages.values(), *runs.trials.values()):
            raise
        there = Present(done=frozenset(), problem=str(error))
    return Wanted(submission=submission, present=there, runs=runs.stages, trial_runs=runs.trials, again=runs.again)


def _retire(instance: dg.DagsterInstance, store: StoreResource, problems: list[str]) -> list[str]:
    try:
        return retire_trials(store.store, instance)
    except UserError as error:
        # The next tick tries again; no submission waits for it.
        problems.append(f"trials of sweeps could not be retired: {error.what}")
        return []


def _tenants() -> TenantsFile:
    """For the tags of runs; preparing goes on where the file cannot be read, and no training is launched then."""
    try:
        return load_tenants()
    except UserError:
        return TenantsFile()


def _request(action: Launch, tenants: TenantsFile) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=action.run_key,
        job_name=action.stage.value,
        partition_key=action.partition,
        tags=launch_tags(action, tenants),
    )
