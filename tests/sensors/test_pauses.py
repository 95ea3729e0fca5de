"""A paused submission on a real instance: it launches nothing, stays open, and goes on in runs of its own."""

import dagster as dg
import pytest

from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.submissions.plan import Stage
from ft_assets.control.submissions.status import State, status_of
from ft_assets.control.submissions.submit import submit
from ft_assets.definitions import build_definitions
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.orchestrator import Dagster
from ft_assets.records.submissions import Submission, find_outcome
from ft_assets.settings import tags
from ft_assets.settings.tenants import load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import SubmissionPaused
from ft_resources.run_states import ACTIVE_STATUSES
from ft_sensors.submissions import submissions_sensor
from tests.e2e.project import Project
from tests.sensors.conftest import add_version

pytestmark = pytest.mark.dagster


@pytest.fixture
def asked(project: Project) -> Submission:
    register_recipe(project.store, project.recipe(), actor="ann")
    dataset = add_version(project)
    return submit(
        project.store,
        load_tenants(),
        dataset=dataset,
        recipe="tiny.v1",
        actor="ann",
        origin="ui",
        idempotency_key="ask-1",
    )[0]


def tick(instance: dg.DagsterInstance, project: Project) -> dg.SensorResult | dg.SkipReason:
    found = submissions_sensor(dg.build_sensor_context(instance=instance), store=StoreResource(url=project.store_url))
    assert isinstance(found, dg.SensorResult | dg.SkipReason)
    return found


class Ends(Dagster):
    """Ends runs that have no process."""

    def end_runs(self, submission: Submission) -> int:
        found = self.instance.get_runs(dg.RunsFilter(tags={tags.SUBMISSION: submission.id}, statuses=ACTIVE_STATUSES))
        for run in found:
            self.instance.report_run_canceled(run)
        return len(found)


def launch(instance: dg.DagsterInstance, project: Project) -> list[dg.DagsterRun]:
    """Runs as the daemon launches what the sensor requests."""
    found = tick(instance, project)
    assert isinstance(found, dg.SensorResult), found.skip_message
    return [
        instance.add_run(
            dg.DagsterRun(
                job_name=str(request.job_name),
                tags={**request.tags, "key": str(request.run_key)},
                status=dg.DagsterRunStatus.STARTED,
            )
        )
        for request in found.run_requests or []
    ]


def test_a_paused_submission_launches_nothing_stays_open_and_goes_on_in_runs_of_its_own(
    project: Project, instance: dg.DagsterInstance, asked: Submission
) -> None:
    before = launch(instance, project)
    assert len(before) == 2
    paused = api.pause(asked.id, reason="lunch", store=project.store, actor="bob", orchestrator=Ends(instance))
    assert (paused.created, paused.runs, paused.workers) == (True, 2, ())
    for _ in range(2):
        found = tick(instance, project)
        assert isinstance(found, dg.SkipReason)
        assert "1 wait (1 paused), 0 ended" in str(found.skip_message)
    assert find_outcome(project.store, asked) is None
    assert status_of(project.store, asked).state is State.PAUSED

    api.resume(asked.id, store=project.store, actor="ann")
    assert status_of(project.store, asked).state is State.QUEUED
    after = launch(instance, project)
    assert [run.job_name for run in after] == [run.job_name for run in before]
    # Dagster launches a run of a key once.
    assert not {run.tags["key"] for run in after} & {run.tags["key"] for run in before}
    assert {run.tags[tags.RESUMED] for run in after} == {"1"}
    # One that is cancelled by hand after that is cancelled.
    instance.report_run_canceled(after[0])
    tick(instance, project)
    outcome = find_outcome(project.store, asked)
    assert outcome is not None
    assert outcome.reason == f"{after[0].job_name} was cancelled"


def test_a_run_that_was_launched_just_before_the_pause_makes_nothing_and_says_why(
    project: Project, instance: dg.DagsterInstance, asked: Submission
) -> None:
    """The sensor had looked before the record was there, and the pause had no run to end."""
    api.pause(asked.id, reason="lunch", store=project.store, actor="bob", orchestrator=Ends(instance))
    list_keys(instance, dataset=asked.dataset, recipe=asked.recipe)
    result = (
        build_definitions(project.store_url)
        .resolve_job_def(Stage.PREPARE_DATASET)
        .execute_in_process(
            instance=instance,
            partition_key=asked.dataset,
            raise_on_error=False,
            tags={tags.SUBMISSION: asked.id, tags.TENANT: asked.tenant},
        )
    )
    (failure,) = (event.step_failure_data for event in result.all_events if event.is_step_failure)
    assert failure.error is not None
    assert (failure.error.cls_name, failure.error.stack) == (SubmissionPaused.__name__, [])
    assert "paused by bob: lunch" in failure.error.message
    assert attempts_at(project.store, identity.dataset_request(Artifacts(project.store), asked.dataset).address) == []
    # That failure is not the submission's, now or once it is resumed.
    assert isinstance(tick(instance, project), dg.SkipReason)
    api.resume(asked.id, store=project.store, actor="ann")
    assert len(launch(instance, project)) == 2
    assert find_outcome(project.store, asked) is None
