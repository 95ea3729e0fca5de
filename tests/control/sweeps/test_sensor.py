"""The submissions sensor on a sweep: trials, decision by the pair's own run, retirement."""

import dagster as dg
import pytest

from ft_assets.control.submissions.submit import submit
from ft_assets.control.sweeps.trial_states import decide
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_assets.settings import tags
from ft_assets.settings.tenants import load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.outcomes import Outcome
from ft_sensors.submissions import submissions_sensor
from tests.control.submissions.estimate_world import DATASET, World
from tests.control.sweeps.made import SWEEP, TRIALS, ended, make_sweep, trained


def tick(instance: dg.DagsterInstance, world: World) -> dg.SensorResult | dg.SkipReason:
    context = dg.build_sensor_context(instance=instance)
    found = submissions_sensor(context, store=StoreResource(url=world.store.url))
    assert isinstance(found, dg.SensorResult | dg.SkipReason)
    return found


def launched(instance: dg.DagsterInstance, world: World) -> dict[str, str]:
    """Partition to job of what a tick launches; the runs are recorded as started."""
    found = tick(instance, world)
    requests = (found.run_requests or []) if isinstance(found, dg.SensorResult) else []
    for request in requests:
        run = dg.DagsterRun(job_name=str(request.job_name), tags=dict(request.tags), status=dg.DagsterRunStatus.STARTED)
        instance.add_run(run)
    return {str(request.partition_key): str(request.job_name) for request in requests}


def end(instance: dg.DagsterInstance, trial: str, *, well: bool) -> None:
    (run,) = instance.get_runs(filters=dg.RunsFilter(tags={tags.TRIAL: trial}))
    instance.delete_run(run.run_id)
    status = dg.DagsterRunStatus.SUCCESS if well else dg.DagsterRunStatus.FAILURE
    instance.add_run(run.with_status(status))


@pytest.fixture
def instance(world: World):
    with dg.instance_for_test() as found:
        make_sweep(world)
        for asset, key in (("dataset", DATASET), ("baseline_report", SWEEP)):
            found.report_runless_asset_event(dg.AssetMaterialization(asset_key=asset, partition=key))
        yield found


@pytest.mark.dagster
def test_each_trial_is_launched_once_then_the_pair_and_the_trials_are_retired(world: World, instance) -> None:
    submission, _ = submit(
        world.store, load_tenants(), dataset=DATASET, recipe=SWEEP, actor="ann", origin="ui", idempotency_key="ask-1"
    )
    assert launched(instance, world) == {f"{DATASET}|{trial}": "train_trial" for trial in TRIALS}
    assert set(instance.get_dynamic_partitions("recipe")) == set(TRIALS)
    assert launched(instance, world) == {}
    for trial in TRIALS[:2]:
        trained(world, trial, 1.0)
        end(instance, trial, well=True)
    assert launched(instance, world) == {}
    ended(world, TRIALS[2], Outcome.DIVERGED)
    end(instance, TRIALS[2], well=False)
    assert launched(instance, world) == {f"{DATASET}|{SWEEP}": "train_pair"}
    decide(world.artifacts, DATASET, SWEEP)
    assert launched(instance, world) == {}
    assert set(instance.get_dynamic_partitions("recipe")) == {*TRIALS, SWEEP}
    finish(world.store, submission, SubmissionStatus.ACCEPTED, adapter="a")
    found = tick(instance, world)
    assert isinstance(found, dg.SkipReason)
    assert "retired 3 trials" in str(found.skip_message)
    assert instance.get_dynamic_partitions("recipe") == [SWEEP]


def test_a_new_wish_goes_on_with_what_a_cancelled_one_left(world: World, instance) -> None:
    trained(world, TRIALS[0], 1.0)
    ended(world, TRIALS[1], Outcome.CANCELLED)
    ended(world, TRIALS[2], Outcome.PREEMPTED)
    submit(
        world.store, load_tenants(), dataset=DATASET, recipe=SWEEP, actor="ann", origin="ui", idempotency_key="ask-1"
    )
    assert set(launched(instance, world)) == {f"{DATASET}|{trial}" for trial in TRIALS[1:]}
