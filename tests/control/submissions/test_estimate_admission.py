"""A training above its maximum, or too large for its GPU, is refused before any worker starts."""

from typing import Any

import dagster as dg
import pytest

import ft_assets.graph.assets.checkpoints
from ft_assets.api import present
from ft_assets.control import identity
from ft_assets.control.submissions import admission
from ft_assets.control.submissions.admission import OverLimit, limit_of, refusal, require_affordable
from ft_assets.control.submissions.plan import RunState, Stage, Wanted, plan
from ft_assets.graph.assets.checkpoints import checkpoint
from ft_assets.graph.listed_keys import list_keys
from ft_assets.records.submissions import Submission, SubmissionStatus
from ft_assets.settings import tags
from ft_assets.settings.tenants import load_tenants
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import BadRecipe, UserError
from ft_resources.outcomes import Outcome
from tests.control.submissions.estimate_world import DATASET, Tenants, World, room
from tests.made import submitted
from tests.untold import untold


def packed(world: World, *key: str, **changes: Any) -> str:
    """A recipe whose pack is there."""
    recipe = world.recipe(*key, **changes)
    world.pack(recipe)
    return recipe


def affordable(world: World, recipe: str, maximum: float | None) -> list[str]:
    return require_affordable(world.artifacts, load_tenants(), DATASET, recipe, maximum)


def refused(world: World, recipe: str, maximum: float | None) -> str:
    return refusal(world.artifacts, load_tenants(), DATASET, recipe, maximum)


def asked(world: World, recipe: str, maximum: float | None) -> Submission:
    return submitted(world.store, DATASET, recipe, max_gpu_hours=maximum)


def test_a_training_above_the_maximum_is_refused_with_both_numbers_and_what_to_do(world: World) -> None:
    recipe = packed(world)
    with pytest.raises(OverLimit) as error:
        affordable(world, recipe, 0.1)
    assert "is expected to take 0.4" in error.value.what
    assert "the submission's maximum is 0.1" in error.value.what
    assert "Raise the maximum, or train less" in error.value.remedy
    assert affordable(world, recipe, 1.0) == []
    assert affordable(world, recipe, None) == []


def test_the_smallest_of_the_three_maxima_holds(world: World, tenants: Tenants) -> None:
    recipe = packed(world, max_gpu_hours=0.3)
    artifacts = world.artifacts
    assert limit_of(artifacts, load_tenants(), DATASET, recipe, None) == (0.3, "the recipe's")
    assert limit_of(artifacts, load_tenants(), DATASET, recipe, 0.2) == (0.2, "the submission's")
    tenants("tiers: {default: {max_gpu_hours: 0.1}}")
    assert limit_of(artifacts, load_tenants(), DATASET, recipe, 0.2) == (0.1, "the tenant's tier's")
    assert "the tenant's tier's maximum is 0.1" in refused(world, recipe, None)


def test_a_maximum_that_nothing_can_be_held_against_refuses_and_before_the_pack_it_is_too_early(world: World) -> None:
    recipe = world.recipe(gpu_type=None)
    world.prepare(recipe)
    assert refused(world, recipe, 0.0001) == ""
    world.pack(recipe)
    assert "gpu_type is not set" in refused(world, recipe, 100.0)
    assert refused(world, recipe, None) == ""


def test_a_training_on_the_cpu_is_refused_for_its_memory_only(world: World, tenants: Tenants, monkeypatch) -> None:
    tenants("tiers: {default: {max_gpu_hours: 0.000001}}")
    recipe = packed(world, gpus=0, gpu_type=None)
    assert affordable(world, recipe, 0.000001) == []
    monkeypatch.setattr(admission, "worker_room", lambda wanted: room(memory=8))
    assert "of host memory" in refused(world, recipe, None)


@pytest.mark.parametrize("wanted", [{"gpus": 2}, {"nodes": 2}])
def test_parts_of_gpus_train_alone(world: World, wanted: dict[str, int]) -> None:
    alone, together = (
        world.recipe(name, gpu_type="H100-1g.10gb", **more) for name, more in (("a.v1", {}), ("b.v1", wanted))
    )
    for recipe in (alone, together):
        world.pack(recipe)
    with pytest.raises(BadRecipe, match="2 parts of H100 GPUs cannot train together"):
        affordable(world, together, None)
    with pytest.raises(OverLimit, match="does not fit a H100-1g"):
        affordable(world, alone, None)


def test_what_cannot_fit_is_refused_and_what_may_not_fit_is_warned_of(world: World) -> None:
    cannot, might = world.recipe("cannot.v1", gpu_type="T4"), world.recipe("might.v1", gpu_type="L40S")
    world.pack(cannot)
    with pytest.raises(OverLimit, match=r"does not fit a T4: it needs between .* and there are 15.0 GiB"):
        affordable(world, cannot, None)
    (warning,) = affordable(world, might, None)
    assert "may not fit a L40S with 45.0 GiB" in warning
    assert "Lower training.micro_batch_size" in warning


def test_where_the_activations_of_one_window_do_not_fit_it_is_advised_to_share_it_among_gpus(world: World) -> None:
    def warned(key: str, **changes: Any) -> str:
        recipe = world.recipe(key, **{"gpu_type": "A10", "max_length": 8192, "recompute": "on", "rank": 96, **changes})
        world.pack(recipe)
        return " ".join(affordable(world, recipe, None))

    assert "share each window with hardware.context_parallel" in warned("one.v1")
    assert "hardware.context_parallel" not in warned("two.v1", micro_batch_size=2, rank=16)
    assert warned("shared.v1", gpus=2, context_parallel=2) == ""
    # Adapters and their states do not become smaller.
    large = world.recipe("large.v2", gpu_type="A10", max_length=8192, recompute="on", rank=512)
    world.pack(large)
    told = refused(world, large, None)
    assert "does not fit" in told
    assert "hardware.context_parallel" not in told


def test_the_room_of_the_machine_for_saves_is_checked_before_a_launch(world, monkeypatch) -> None:
    """Full training of 8B copies 90 to 99 GiB to the host with each save, and writes them to the scratch disk."""
    recipe = packed(world, variant="full", gpus=8, gpu_type="H200", max_gpu_hours=None)

    def asked(memory: float, disk: float) -> list[str]:
        monkeypatch.setattr(admission, "worker_room", lambda wanted: room(memory, disk))
        return affordable(world, recipe, None)

    assert asked(200, 200) == []
    with pytest.raises(OverLimit, match=r"of host memory with its saves, and there are 96.0 GiB") as error:
        asked(96, 200)
    assert error.value.remedy.startswith("Buy more")
    with pytest.raises(OverLimit, match=r"of scratch disk with its saves, and there are 100.0 GiB"):
        asked(200, 100)
    (warning,) = asked(125, 200)
    assert "may not fit its machine" in warning


def test_what_is_under_way_or_there_is_not_refused_any_more(world: World) -> None:
    recipe = packed(world)
    attempt = world.attempt(recipe)
    assert refused(world, recipe, 0.1) == ""
    attempt.record_ending(Outcome.CANCELLED)
    assert refused(world, recipe, 0.1)
    world.make(identity.checkpoint_request(world.artifacts, DATASET, recipe), {})
    assert refused(world, recipe, 0.1) == ""


class NoLauncher(LauncherResource):
    """Whoever asks it to run work has failed the test."""

    def execution(self, store: Any) -> Any:
        raise AssertionError("work was launched")


@pytest.mark.parametrize(("maximum", "launched"), [(0.1, False), (1.0, True), (None, True)])
def test_the_checkpoint_asset_launches_nothing_above_the_maximum(world, monkeypatch, maximum, launched) -> None:
    """In process, with a launcher that must not be asked."""
    recipe = packed(world)
    monkeypatch.setattr(ft_assets.graph.assets.checkpoints, "refuse_sick_pack", lambda *_: None)
    submission = asked(world, recipe, maximum)
    instance = dg.DagsterInstance.ephemeral()
    list_keys(instance, dataset=DATASET, recipe=recipe)
    expected, words = (AssertionError, "work was launched") if launched else (OverLimit, "GPU-hours")
    with pytest.raises(expected, match=words), untold():
        dg.materialize(
            [checkpoint],
            partition_key=submission.pair,
            instance=instance,
            resources={"store": StoreResource(url=world.store.url), "launcher": NoLauncher()},
            tags={tags.SUBMISSION: submission.id, tags.TENANT: "acme"},
        )


def test_a_refused_submission_ends_with_the_reason_launches_no_run_and_a_higher_maximum_goes_on(world: World) -> None:
    recipe = packed(world)
    submission = asked(world, recipe, 0.1)
    found = present(submission, store=world.store)
    (action,) = plan([Wanted(submission=submission, present=found, runs={})])
    assert action.status is SubmissionStatus.FAILED
    assert "the submission's maximum is 0.1" in action.reason
    # While the run that will meet the same refusal is under way, its end is waited for.
    assert plan([Wanted(submission=submission, present=found, runs={Stage.TRAIN_PAIR: RunState.ACTIVE})]) == []
    (again,) = plan([Wanted(submission=submission, present=found, runs={Stage.TRAIN_PAIR: RunState.FAILED})])
    assert again.reason == action.reason
    higher = submitted(world.store, DATASET, recipe, key="ask-2", max_gpu_hours=1.0)
    assert present(higher, store=world.store).problem == ""


@pytest.mark.parametrize("maximum", [0.0, -1.0, float("nan"), float("inf")])
def test_a_maximum_that_means_nothing_is_refused_and_leaves_no_trace(world: World, maximum: float) -> None:
    with pytest.raises(UserError, match="GPU-hours is invalid"):
        asked(world, world.recipe(), maximum)
    assert list(world.store.entries("open_submissions")) == []
