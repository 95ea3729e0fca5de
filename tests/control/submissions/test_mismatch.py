"""A pair that makes no sense or may not be trained is refused before anything is written, or its submission ends."""

import dagster as dg
import pytest

from ft_assets.control.recipes.allowed import NotAllowed
from ft_assets.control.registry.register import register_recipe
from ft_assets.graph.jobs.submissions import fine_tune
from ft_assets.graph.run import drive
from ft_assets.records.submissions import SubmissionStatus, find_outcome, open_submissions
from ft_assets.settings.tenants import load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import BadRecipe, UserError
from ft_sensors.submissions import submissions_sensor
from tests.control.submissions.estimate_world import DATASET, Tenants, World
from tests.made import submitted

REASON = "has chat data, and orpo needs preference data"


def recipe_of(world: World, key: str = "pairs.v1", **changes: object) -> str:
    asked = {"method": "orpo", "hardware": {"gpus": 1, "gpu_type": "H100"}, **changes}
    return register_recipe(world.store, world.project.recipe(key, **asked), actor="ann").key


@pytest.mark.parametrize(
    ("changes", "words"), [({}, REASON), ({"key": "globex.own.v1", "method": "sft"}, "belongs to tenant 'globex'")]
)
def test_what_is_known_not_to_fit_or_is_another_tenants_is_refused_before_a_submission_is_written(
    world: World, changes: dict, words: str
) -> None:
    recipe = recipe_of(world, **changes)
    world.prepare(recipe)
    config = {"ops": {"record_submission": {"config": {"dataset": DATASET, "recipe": recipe}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        result = fine_tune.execute_in_process(
            run_config=config,
            resources={"store": StoreResource(url=world.project.store_url)},
            instance=instance,
            raise_on_error=False,
        )
    assert words in str(result.failure_data_for_node("record_submission"))
    assert not list(open_submissions(world.store))


@pytest.mark.parametrize("driver", ["caller", "sensor"])
def test_what_turns_out_not_to_fit_ends_the_submission_whoever_drives_it(world: World, driver: str) -> None:
    """It was asked for before the dataset was curated, when nobody knew what it holds."""
    recipe = recipe_of(world)
    submission = submitted(world.store, DATASET, recipe, driver=driver)
    world.prepare(recipe)
    with dg.DagsterInstance.ephemeral() as instance:
        if driver == "caller":
            with pytest.raises(UserError, match=REASON):
                drive(world.store, instance, submission)
        else:
            context = dg.build_sensor_context(instance=instance)
            submissions_sensor(context, store=StoreResource(url=world.project.store_url))
    outcome = find_outcome(world.store, submission)
    assert (outcome.status, REASON in outcome.reason) == (SubmissionStatus.FAILED, True)
    assert not list(open_submissions(world.store))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("deprecated_methods: [sft/lora]", "sft/lora is deprecated"),
        ("deprecated_methods: [lora]", "sft/lora is deprecated"),
        ("tiers: {default: {allowed_methods: [dpo, full]}}", "allows dpo, full; this recipe uses sft/lora"),
        ("tiers: {default: {allowed_methods: []}}", "allows nothing"),
        ("tiers: {default: {allowed_bases: ['hub:a/b']}}", "allows the bases hub:a/b; this recipe uses"),
    ],
)
def test_what_may_not_be_used_is_refused_and_nothing_is_recorded(world, tenants, text, words) -> None:
    recipe = world.recipe()
    tenants(text)
    with pytest.raises(NotAllowed, match=words):
        submitted(world.store, DATASET, recipe)
    assert list(open_submissions(world.store)) == []


def test_what_was_asked_for_before_a_deprecation_goes_on(world: World, tenants: Tenants) -> None:
    recipe = world.recipe()
    submitted(world.store, DATASET, recipe)
    tenants("deprecated_methods: [lora]")
    submitted(world.store, DATASET, recipe)  # The same wish joins what is under way.
    assert len(list(open_submissions(world.store))) == 1
    with pytest.raises(NotAllowed):
        submitted(world.store, DATASET, recipe, key="another")


def test_an_unknown_method_is_named(world: World, tenants: Tenants) -> None:
    tenants("deprecated_methods: [lorra]")
    with pytest.raises(BadRecipe, match="METHOD/VARIANT"):
        load_tenants()


def test_a_gpu_hour_quota_is_held_at_submission(world: World, tenants: Tenants) -> None:
    recipe = world.recipe()
    tenants("tenants: {acme: {quota: {hard_gpu_hours: 0.0001}}}")
    with pytest.raises(UserError, match=r"of acme's 0\.0001 per month 0\.00 are used and 0\.00 reserved"):
        submitted(world.store, DATASET, recipe)
    assert list(open_submissions(world.store)) == []
    tenants("tenants: {acme: {quota: {hard_gpu_hours: 500, soft_gpu_hours: 0}}}")
    assert "overage" in submitted(world.store, DATASET, recipe).warnings[0]
