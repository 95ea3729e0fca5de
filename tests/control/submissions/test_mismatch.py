"""A pair that makes no sense is refused before anything is written, or its submission ends and says why."""

import dagster as dg
import pytest

from ft_assets.control.registry.register import register_recipe
from ft_assets.control.submissions.submit import submit
from ft_assets.graph.jobs.submissions import fine_tune
from ft_assets.graph.run import drive
from ft_assets.records.submissions import Submission, SubmissionStatus, find_outcome, open_submissions
from ft_assets.settings.tenants import load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_sensors.submissions import submissions_sensor
from tests.control.submissions.estimate_world import DATASET, World

REASON = "has chat data, and orpo needs preference data"


@pytest.fixture
def recipe(world: World) -> str:
    path = world.project.recipe("pairs.v1", method="orpo", hardware={"gpus": 1, "gpu_type": "H100"})
    return register_recipe(world.store, path, actor="ann").key


def ask_job(world: World, recipe: str) -> dg.ExecuteInProcessResult:
    config = {"ops": {"record_submission": {"config": {"dataset": DATASET, "recipe": recipe}}}}
    resources = {"store": StoreResource(url=world.project.store_url)}
    with dg.DagsterInstance.ephemeral() as instance:
        return fine_tune.execute_in_process(
            run_config=config, resources=resources, instance=instance, raise_on_error=False
        )


def ask(world: World, recipe: str, driver: str) -> Submission:
    """As somebody asks before the dataset is curated, when nobody knows what it holds."""
    made, _ = submit(
        world.store,
        load_tenants(),
        dataset=DATASET,
        recipe=recipe,
        actor="ann",
        origin="python",
        driver=driver,  # type: ignore[arg-type]
        idempotency_key="k",
    )
    return made


def reason_of(world: World, submission: Submission) -> str:
    outcome = find_outcome(world.store, submission)
    assert outcome is not None
    assert outcome.status is SubmissionStatus.FAILED
    assert not list(open_submissions(world.store))
    return outcome.reason


def test_what_is_known_not_to_fit_is_refused_before_a_submission_is_written(world: World, recipe: str) -> None:
    world.prepare(recipe)
    result = ask_job(world, recipe)
    assert not result.success
    assert REASON in str(result.failure_data_for_node("record_submission"))
    assert not list(open_submissions(world.store))


def test_another_tenant_s_recipe_is_refused_before_a_submission_is_written(world: World) -> None:
    path = world.project.recipe("globex.own.v1")
    result = ask_job(world, register_recipe(world.store, path, actor="bob").key)
    assert "belongs to tenant 'globex'" in str(result.failure_data_for_node("record_submission"))
    assert not list(open_submissions(world.store))


def test_what_turns_out_not_to_fit_ends_the_submission_of_whoever_waits(world: World, recipe: str) -> None:
    submission = ask(world, recipe, "caller")
    world.prepare(recipe)
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(UserError, match=REASON):
        drive(world.store, instance, submission)
    assert REASON in reason_of(world, submission)


def test_what_turns_out_not_to_fit_ends_the_submission_that_the_sensor_drives(world: World, recipe: str) -> None:
    submission = ask(world, recipe, "sensor")
    world.prepare(recipe)
    with dg.DagsterInstance.ephemeral() as instance:
        submissions_sensor(dg.build_sensor_context(instance=instance), store=StoreResource(url=world.project.store_url))
    assert REASON in reason_of(world, submission)
