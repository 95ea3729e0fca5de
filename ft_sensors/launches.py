"""The runs that submissions need next, as requests to Dagster."""

from collections.abc import Callable, Sequence
from functools import partial

import dagster as dg

from ft_assets import api
from ft_assets.api import Launch, RunState, Step, Wanted
from ft_assets.graph.failed_runs import failure_of_submission
from ft_assets.graph.listed_keys import list_launched
from ft_assets.graph.run import launch_tags
from ft_assets.graph.runs import as_dagster_shows, run_states
from ft_assets.records.pauses import read_pauses
from ft_assets.records.submissions import Submission
from ft_assets.settings import tags
from ft_assets.settings.tenants import NO_TENANTS, TenantsFile, load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.run_states import ACTIVE_STATUSES
from ft_resources.store import Store
from ft_sensors.ticks import take

# Of more that were recorded in one tick, the others are launched by the submissions sensor.
_FIRST = 50


def take_and_launch(
    context: dg.SensorEvaluationContext, store: StoreResource, step: Callable[[], Step], cannot: str
) -> dg.SensorResult | dg.SkipReason:
    """Take a step and show it, as ``take`` does, and request the first runs of what it submitted in the same tick."""
    submitted: list[Submission] = []

    def taken() -> Step:
        done = step()
        submitted.extend(done.submitted)
        return done

    shown = take(context, taken, cannot)
    requests = first_requests(context.instance, store.store, submitted) if submitted else []
    if not requests:
        return shown
    # A tick that launches has no sentence beside it; its log has.
    context.log.info(str(shown.skip_message))
    return dg.SensorResult(run_requests=requests)


def first_requests(
    instance: dg.DagsterInstance, store: Store, submissions: Sequence[Submission]
) -> list[dg.RunRequest]:
    """The first runs of submissions that were just recorded, as the submissions sensor would request them at its next
    tick; that one finds them under way."""
    tenants, readable = read_tenants()
    wanted = [as_wanted(instance, store, each, tenants) for each in submissions[:_FIRST]]
    return next_requests(instance, store, wanted, tenants, readable=readable)[0]


def next_requests(
    instance: dg.DagsterInstance, store: Store, wanted: list[Wanted], tenants: TenantsFile, *, readable: bool
) -> tuple[list[dg.RunRequest], int]:
    """The runs that are wanted now, and how many submissions ended. Their partitions are listed."""
    # Nobody may have more than their limit because it cannot be read.
    nowhere = {item.submission.tenant: 0 for item in wanted}
    places = _places(instance, wanted, tenants) if readable else nowhere
    failure_of = partial(failure_of_submission, instance, store)
    launches, finished = api.next_launches(wanted, places, failure_of=failure_of, store=store)
    list_launched(instance, launches)
    return [_request(launch, tenants) for launch in launches], finished


def _places(instance: dg.DagsterInstance, wanted: list[Wanted], tenants: TenantsFile) -> dict[str, int]:
    """Free training slots of each tenant with a limit, counting queued and running runs."""
    free = {}
    for tenant in {item.submission.tenant for item in wanted}:
        most = tenants.quota_of(tenant).concurrent
        if most is not None:
            under_way = dg.RunsFilter(tags={tags.TENANT: tenant, tags.TRAINS: "true"}, statuses=ACTIVE_STATUSES)
            free[tenant] = most - instance.get_runs_count(under_way)
    return free


def as_wanted(instance: dg.DagsterInstance, store: Store, submission: Submission, tenants: TenantsFile) -> Wanted:
    """The submission and its known state. Raises UserError for broken records, unless they end the submission."""
    pauses = read_pauses(store, submission)
    runs = run_states(instance, submission, pauses.resumed)
    try:
        found = api.present(submission, store=store, tenants=tenants)
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


def read_tenants() -> tuple[TenantsFile, bool]:
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
