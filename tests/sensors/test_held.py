"""A submission whose dataset is held: it waits, is not failed, and goes on by itself after approval."""

import dagster as dg
import pytest

from ft_assets.control import identity
from ft_assets.control.identity.review import approve
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.submissions.plan import Stage
from ft_assets.control.submissions.status import State, status_of
from ft_assets.control.submissions.submit import submit
from ft_assets.definitions import build_definitions
from ft_assets.graph.listed_keys import list_keys
from ft_assets.records.submissions import Submission, find_outcome, open_submissions
from ft_assets.settings.tags import SUBMISSION, VERDICT
from ft_assets.settings.tenants import load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import HeldForReview
from ft_sensors.submissions import submissions_sensor
from tests.curated import LEAK, leave_dataset
from tests.e2e.project import Project
from tests.made import leave
from tests.sensors.conftest import add_version

pytestmark = pytest.mark.dagster

RECIPE = "tiny.v1"


@pytest.fixture
def asked(project: Project, instance: dg.DagsterInstance) -> Submission:
    """Of a dataset and a recipe that are not prepared."""
    register_recipe(project.store, project.recipe(), actor="ann")
    dataset = add_version(project)
    list_keys(instance, dataset=dataset, recipe=RECIPE)
    return submit(
        project.store, load_tenants(), dataset=dataset, recipe=RECIPE, actor="ann", origin="ui", idempotency_key="ask-1"
    )[0]


def tick(instance: dg.DagsterInstance, project: Project) -> dict[str, str]:
    """What the sensor launches: partitions by job."""
    found = submissions_sensor(dg.build_sensor_context(instance=instance), store=StoreResource(url=project.store_url))
    assert isinstance(found, dg.SensorResult | dg.SkipReason)
    requests = (found.run_requests or []) if isinstance(found, dg.SensorResult) else []
    return {str(request.job_name): str(request.partition_key) for request in requests}


def said(instance: dg.DagsterInstance, project: Project) -> str:
    """What the sensor says where it launches nothing."""
    found = submissions_sensor(dg.build_sensor_context(instance=instance), store=StoreResource(url=project.store_url))
    assert isinstance(found, dg.SkipReason)
    return str(found.skip_message)


def run(
    instance: dg.DagsterInstance, project: Project, stage: Stage, partition: str, submission: str = "", *assets: str
) -> dg.ExecuteInProcessResult:
    """A run of its own, for the submission or, without one, as somebody launches it from the UI."""
    return (
        build_definitions(project.store_url)
        .resolve_job_def(stage)
        .execute_in_process(
            instance=instance,
            partition_key=partition,
            raise_on_error=False,
            tags={SUBMISSION: submission} if submission else {},
            asset_selection=[dg.AssetKey(asset) for asset in assets] or None,
        )
    )


def prepare_base(artifacts: Artifacts) -> None:
    facts = {
        "tokenizer_digest": "00",
        "template_digest": "11",
        "parameters": 1,
        "architecture": "tiny",
        "bytes": 1,
        "source": "folder",
        "revision": "",
        "chat_template": True,
    }
    leave(artifacts, identity.base_model_request(artifacts, RECIPE), {"config.json": b"{}"}, facts)
    leave(artifacts, identity.baseline_report_request(artifacts, RECIPE), {"report.json": b"{}"}, {"scores": {}})


def test_a_held_submission_waits_with_the_reasons_and_goes_on_by_itself_after_approval(
    project: Project, instance: dg.DagsterInstance, asked: Submission
) -> None:
    artifacts = Artifacts(project.store)
    assert tick(instance, project) == {"prepare_dataset": asked.dataset, "prepare_recipe": RECIPE}
    leave_dataset(artifacts, asked.dataset, [LEAK])
    prepare_base(artifacts)
    # A hold is a result: the run ends well, and its page says what a person can do.
    held = run(instance, project, Stage.PREPARE_DATASET, asked.dataset, asked.id)
    assert held.success
    assert instance.get_run_by_id(held.run_id).tags[VERDICT] == "held"
    (check,) = held.get_asset_check_evaluations()
    assert (check.passed, check.description) == (
        False,
        f"held: {LEAK} To continue: ft dataset approve {asked.dataset} --note TEXT",
    )
    assert run(instance, project, Stage.PREPARE_RECIPE, RECIPE, asked.id).success

    assert tick(instance, project) == {}
    assert "1 wait (1 for a review of their dataset), 0 ended" in said(instance, project)
    assert find_outcome(project.store, asked) is None
    status = status_of(project.store, asked)
    assert status.state is State.HELD
    assert LEAK in status.detail
    assert f"ft dataset approve {asked.dataset}" in status.remedy

    approve(artifacts, asked.dataset, actor="ann", note="the tests are public")
    assert status_of(project.store, asked).state is not State.HELD
    assert tick(instance, project) == {"train_pair": asked.pair}
    assert [each.id for each in open_submissions(project.store)] == [asked.id]


def test_nothing_is_launched_for_a_version_that_was_held_before_it_was_asked_for(
    project: Project, instance: dg.DagsterInstance, asked: Submission
) -> None:
    artifacts = Artifacts(project.store)
    leave_dataset(artifacts, asked.dataset, [LEAK])
    assert tick(instance, project) == {}
    assert status_of(project.store, asked).state is State.HELD
    approve(artifacts, asked.dataset, actor="ann", note="fine")
    # Cached, but the UI should show it.
    assert tick(instance, project) == {"prepare_dataset": asked.dataset, "prepare_recipe": RECIPE}


def test_no_separate_run_makes_anything_of_a_held_version(
    project: Project, instance: dg.DagsterInstance, asked: Submission
) -> None:
    """Dagster itself lets a separate run of the downstream asset through after a failed check."""
    artifacts = Artifacts(project.store)
    leave_dataset(artifacts, asked.dataset, [LEAK])
    prepare_base(artifacts)
    for asset, request in identity.pair_requests().items():
        result = run(instance, project, Stage.TRAIN_PAIR, asked.pair, "", asset)
        (failure,) = (event.step_failure_data for event in result.all_events if event.is_step_failure)
        assert failure.error is not None
        assert (failure.error.cls_name, failure.error.stack) == (HeldForReview.__name__, []), asset
        with pytest.raises(HeldForReview):
            request(artifacts, asked.dataset, RECIPE)

    approve(artifacts, asked.dataset, actor="ann", note="the tests are public")
    pack = identity.token_pack_request(artifacts, asked.dataset, RECIPE)
    assert attempts_at(project.store, pack.address) == []
    facts = {
        "windows": 4,
        "max_length": 128,
        "examples": 9,
        "tokens": 400,
        "learned_tokens": 200,
        "dropped": 0,
        "validation": {"examples": 1, "tokens": 10},
        "length_histogram": {"edges": [1, 2], "counts": [9]},
    }
    leave(artifacts, pack, {"train.npy": b"0", "report/samples.html": b"<p>"}, facts)
    result = run(instance, project, Stage.TRAIN_PAIR, asked.pair, "", "token_pack")
    materialized = [
        event.materialization.asset_key.to_user_string() for event in result.get_asset_materialization_events()
    ]
    assert materialized == ["token_pack"]
