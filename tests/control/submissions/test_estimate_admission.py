"""A training above its maximum, or too large for its GPU, is refused before any worker starts."""

from typing import Any

import dagster as dg
import pytest

import ft_assets.graph.assets.checkpoints
from ft_assets.api import present
from ft_assets.control import identity
from ft_assets.control.submissions import admission
from ft_assets.control.submissions.admission import OverLimit, limit_of, refusal, require_affordable
from ft_assets.control.submissions.plan import Finish, RunState, Stage, Wanted, plan
from ft_assets.control.submissions.submit import submit
from ft_assets.graph.assets.checkpoints import checkpoint
from ft_assets.graph.listed_keys import list_keys
from ft_assets.records.submissions import Submission, SubmissionStatus
from ft_assets.settings import tags
from ft_assets.settings.tenants import load_tenants
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import BadRecipe, UserError
from ft_resources.outcomes import Outcome
from tests.control.submissions.estimate_world import DATASET, Tenants, World, room
from tests.untold import untold


def asked(world: World, recipe: str, maximum: float | None) -> Submission:
    return submit(
        world.store, load_tenants(), dataset=DATASET, recipe=recipe, actor="ann", origin="python", max_gpu_hours=maximum
    )[0]


def test_a_training_above_the_maximum_is_refused_with_both_numbers_and_what_to_do(world: World) -> None:
    recipe = world.recipe()
    world.pack(recipe)
    with pytest.raises(OverLimit) as error:
        require_affordable(world.artifacts, load_tenants(), DATASET, recipe, 0.1)
    assert "is expected to take 0.4" in error.value.what
    assert "the submission's maximum is 0.1" in error.value.what
    assert "Raise the maximum, or train less" in error.value.remedy
    assert require_affordable(world.artifacts, load_tenants(), DATASET, recipe, 1.0) == []
    assert require_affordable(world.artifacts, load_tenants(), DATASET, recipe, None) == []


def test_the_smallest_of_the_three_maxima_holds(world: World, tenants: Tenants) -> None:
    recipe = world.recipe(max_gpu_hours=0.3)
    world.pack(recipe)
    assert limit_of(world.artifacts, load_tenants(), DATASET, recipe, None) == (0.3, "the recipe's")
    assert limit_of(world.artifacts, load_tenants(), DATASET, recipe, 0.2) == (0.2, "the submission's")
    tenants("tiers: {default: {max_gpu_hours: 0.1}}")
    assert limit_of(world.artifacts, load_tenants(), DATASET, recipe, 0.2) == (0.1, "the tenant's tier's")
    assert "the tenant's tier's maximum is 0.1" in refusal(world.artifacts, load_tenants(), DATASET, recipe, None)


def test_a_maximum_that_nothing_can_be_held_against_refuses(world: World) -> None:
    recipe = world.recipe(gpu_type=None)
    world.pack(recipe)
    assert "gpu_type is not set" in refusal(world.artifacts, load_tenants(), DATASET, recipe, 100.0)
    assert refusal(world.artifacts, load_tenants(), DATASET, recipe, None) == ""


def test_a_training_on_the_cpu_is_never_refused(world: World, tenants: Tenants) -> None:
    tenants("tiers: {default: {max_gpu_hours: 0.000001}}")
    recipe = world.recipe(gpus=0, gpu_type=None)
    world.pack(recipe)
    assert require_affordable(world.artifacts, load_tenants(), DATASET, recipe, 0.000001) == []


@pytest.mark.parametrize("wanted", [{"gpus": 2}, {"nodes": 2}])
def test_parts_of_gpus_train_alone(world: World, wanted: dict[str, int]) -> None:
    alone, together = (
        world.recipe(name, gpu_type="H100-1g.10gb", **more) for name, more in (("a.v1", {}), ("b.v1", wanted))
    )
    for recipe in (alone, together):
        world.pack(recipe)
    with pytest.raises(BadRecipe, match="2 parts of H100 GPUs cannot train together"):
        require_affordable(world.artifacts, load_tenants(), DATASET, together, None)
    with pytest.raises(OverLimit, match="does not fit a H100-1g"):
        require_affordable(world.artifacts, load_tenants(), DATASET, alone, None)


def test_what_cannot_fit_is_refused_and_what_may_not_fit_is_warned_of(world: World) -> None:
    cannot, might = world.recipe("cannot.v1", gpu_type="T4"), world.recipe("might.v1", gpu_type="L40S")
    world.pack(cannot)
    with pytest.raises(OverLimit, match=r"does not fit a T4: it needs between .* and there are 15.0 GiB"):
        require_affordable(world.artifacts, load_tenants(), DATASET, cannot, None)
    (warning,) = require_affordable(world.artifacts, load_tenants(), DATASET, might, None)
    assert "may not fit a L40S with 45.0 GiB" in warning
    assert "Lower training.micro_batch_size" in warning


def test_where_the_activations_of_one_window_do_not_fit_it_is_advised_to_share_it_among_gpus(world: World) -> None:
    def warned(key: str, **changes: Any) -> str:
        recipe = world.recipe(key, **{"gpu_type": "A10", "max_length": 8192, "recompute": "on", "rank": 96, **changes})
        world.pack(recipe)
        return " ".join(require_affordable(world.artifacts, load_tenants(), DATASET, recipe, None))

    assert "share each window with hardware.context_parallel" in warned("one.v1")
    assert "hardware.context_parallel" not in warned("two.v1", micro_batch_size=2, rank=16)
    assert warned("shared.v1", gpus=2, context_parallel=2) == ""
    # Adapters and their states do not become smaller.
    large = world.recipe("large.v2", gpu_type="A10", max_length=8192, recompute="on", rank=512)
    world.pack(large)
    told = refusal(world.artifacts, load_tenants(), DATASET, large, None)
    assert "does not fit" in told
    assert "hardware.context_parallel" not in told


def test_the_room_of_the_machine_for_saves_is_checked_before_a_launch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full training of 8B copies 90 to 99 GiB to the host with each save, and writes them to the scratch disk."""
    recipe = world.recipe(variant="full", gpus=8, gpu_type="H200", max_gpu_hours=None)
    world.pack(recipe)

    def asked(memory: float, disk: float) -> list[str]:
        monkeypatch.setattr(admission, "worker_room", lambda wanted: room(memory, disk))
        return require_affordable(world.artifacts, load_tenants(), DATASET, recipe, None)

    assert asked(200, 200) == []
    with pytest.raises(OverLimit, match=r"of host memory with its saves, and there are 96.0 GiB") as error:
        asked(96, 200)
    assert error.value.remedy.startswith("Buy more")
    with pytest.raises(OverLimit, match=r"of scratch disk with its saves, and there are 100.0 GiB"):
        asked(200, 100)
    (warning,) = asked(125, 200)
    assert "may not fit its machine" in warning


def test_a_training_on_the_cpu_needs_its_memory_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = world.recipe(gpus=0, gpu_type=None)
    world.pack(recipe)
    monkeypatch.setattr(admission, "worker_room", lambda wanted: room(memory=8))
    assert "of host memory" in refusal(world.artifacts, load_tenants(), DATASET, recipe, None)


def test_before_the_pack_is_there_it_is_too_early_to_refuse(world: World) -> None:
    recipe = world.recipe()
    world.prepare(recipe)
    assert refusal(world.artifacts, load_tenants(), DATASET, recipe, 0.0001) == ""


def test_what_is_under_way_or_there_is_not_refused_any_more(world: World) -> None:
    recipe = world.recipe()
    world.pack(recipe)
    attempt = world.attempt(recipe)
    assert refusal(world.artifacts, load_tenants(), DATASET, recipe, 0.1) == ""
    attempt.record_ending(Outcome.CANCELLED)
    assert refusal(world.artifacts, load_tenants(), DATASET, recipe, 0.1)
    world.make(identity.checkpoint_request(world.artifacts, DATASET, recipe), {})
    assert refusal(world.artifacts, load_tenants(), DATASET, recipe, 0.1) == ""


class NoLauncher(LauncherResource):
    """Whoever asks it to run work has failed the test."""

    def execution(self, store: Any) -> Any:
        raise AssertionError("work was launched")


@pytest.mark.parametrize(("maximum", "launched"), [(0.1, False), (1.0, True), (None, True)])
def test_the_checkpoint_asset_launches_nothing_above_the_maximum(
    world: World, monkeypatch: pytest.MonkeyPatch, maximum: float | None, launched: bool
) -> None:
    """In process, with a launcher that must not be asked."""
    recipe = world.recipe()
    world.pack(recipe)
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


def test_a_refused_submission_ends_with_the_reason_and_launches_no_run(world: World) -> None:
    recipe = world.recipe()
    world.pack(recipe)
    submission = asked(world, recipe, 0.1)
    found = present(submission, store=world.store)
    (action,) = plan([Wanted(submission=submission, present=found, runs={})])
    assert isinstance(action, Finish)
    assert action.status is SubmissionStatus.FAILED
    assert "the submission's maximum is 0.1" in action.reason
    # While the run that will meet the same refusal is under way, its end is waited for.
    assert plan([Wanted(submission=submission, present=found, runs={Stage.TRAIN_PAIR: RunState.ACTIVE})]) == []
    (again,) = plan([Wanted(submission=submission, present=found, runs={Stage.TRAIN_PAIR: RunState.FAILED})])
    assert isinstance(again, Finish)
    assert again.reason == action.reason


def test_asking_again_with_a_higher_maximum_goes_on(world: World) -> None:
    recipe = world.recipe()
    world.pack(recipe)
    assert present(asked(world, recipe, 1.0), store=world.store).problem == ""


@pytest.mark.parametrize("maximum", [0.0, -1.0, float("nan"), float("inf")])
def test_a_maximum_that_means_nothing_is_refused_and_leaves_no_trace(world: World, maximum: float) -> None:
    with pytest.raises(UserError, match="GPU-hours is not possible"):
        asked(world, world.recipe(), maximum)
    assert list(world.store.entries("open_submissions")) == []
