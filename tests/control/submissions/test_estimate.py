"""What the store says a training would take, and what each number stands on."""

import json
import re
from dataclasses import asdict
from typing import Any

import pytest

from ft_assets import api
from ft_assets.cli.estimate import rows_of
from ft_assets.control import identity
from ft_assets.control.planning.estimate import estimate_file, estimate_training
from ft_assets.control.planning.estimated import Estimate
from ft_assets.control.planning.predict import Fits
from ft_assets.control.registry.register import register_recipe
from ft_assets.settings.tenants import load_tenants
from ft_resources.errors import BadRecipe, UserError
from ft_resources.launchers import choice
from tests.control.submissions.estimate_world import DATASET, Tenants, World
from tests.workers.packs.estimate.made import LLAMA_3_8B


def estimated(world: World, recipe: str) -> Estimate:
    return estimate_training(world.artifacts, load_tenants(), DATASET, recipe)


def packed(world: World, *key: str, **changes: Any) -> Estimate:
    """The estimate of a new recipe whose pack is there."""
    recipe = world.recipe(*key, **changes)
    world.pack(recipe)
    return estimated(world, recipe)


def test_the_pack_s_tokens_and_the_architecture_give_time_memory_and_price(world: World, tenants: Tenants) -> None:
    tenants("gpu_prices: {h100: 3.5}\ncurrency: EUR\n")
    found = packed(world)
    assert (found.tokens_per_epoch, found.tokens, found.windows, found.steps) == (20_000_000, 20_000_000, 5000, 313)
    assert "llama with 8,030,261,248 parameters" in found.memory_from
    assert found.fits is Fits.YES
    # About 16e9 bytes of bf16 weights, and 4,096 tokens of 7.4 MB of activations.
    assert found.memory.expected == pytest.approx(16e9 + 4096 * 7.4e6 + 2**30, rel=0.1)
    # 4 operations for each of 7.5e9 parameters and token at 40 % of 989e12, and some minutes to start.
    arithmetic = 20e6 * 4 * 7.5e9 / (0.4 * 989e12)
    assert found.seconds == pytest.approx(arithmetic, rel=0.1)
    assert found.gpu_hours.expected > arithmetic / 3600
    assert found.price.expected == pytest.approx(3.5 * found.gpu_hours.expected)
    assert (found.currency, found.price_from) == ("EUR", "3.50 EUR per hour of one H100")
    assert json.loads(json.dumps(asdict(found)))["fits"] == "yes"


def test_a_machine_without_the_recipes_gpus_says_so_with_the_estimate(world, monkeypatch, tmp_path) -> None:
    recipe = world.recipe(gpus=2)
    world.pack(recipe)
    monkeypatch.setattr(choice, "_DEVICES", tmp_path)
    assert api.estimate(DATASET, recipe, store=world.store).notes == (
        "The recipe trains on 2 GPUs, and this machine has no GPU.",
    )
    with pytest.raises(UserError, match="this machine has no GPU"):
        api.submit(DATASET, recipe, driver="caller", store=world.store)
    assert api.submit(DATASET, recipe, store=world.store).created
    for number in range(2):
        (tmp_path / f"nvidia{number}").touch()
    assert api.estimate(DATASET, recipe, store=world.store).notes == ()


def test_gpu_hours_count_the_gpus_of_all_nodes_and_a_cpu_takes_none(world: World) -> None:
    found = packed(world, gpus=2, nodes=4)
    assert found.gpu_hours_from == "time to start and train, on 8 GPUs of 4 nodes"
    assert found.gpu_hours.expected > 8 * found.seconds / 3600
    found = packed(world, "cpu.v1", gpus=0, gpu_type=None)
    assert (found.gpu_hours.expected, found.price, found.fits) == (0, None, None)
    assert found.memory is not None


def test_a_training_that_compares_counts_the_scoring_of_its_reference_until_that_is_there(world: World) -> None:
    path = world.project.recipe("pairs.v1", method="dpo", hardware={"gpus": 2, "gpu_type": "H100"})
    recipe = register_recipe(world.store, path, actor="ann").key
    world.prepare(recipe, form="preference")
    world.pack(recipe)
    before = estimated(world, recipe)
    assert before.gpu_hours_from == "time to start and train, on 2 GPUs; before that, one GPU scores the reference"
    world.make(identity.reference_logps_request(world.artifacts, DATASET, recipe), {})
    after = estimated(world, recipe)
    assert after.gpu_hours_from == "time to start and train, on 2 GPUs"
    assert after.gpu_hours.expected < before.gpu_hours.expected
    assert after.seconds == before.seconds


def test_before_the_pack_rows_are_sampled_with_the_base_s_tokenizer_and_before_that_bytes_are_counted(world) -> None:
    recipe = world.recipe()
    found = estimated(world, recipe)
    assert found.tokens_from == "a guess from the upload's bytes and the policy's split, at 4 bytes per token"
    assert "llama" in found.memory_from
    assert found.memory is not None
    world.prepare(recipe)
    found = estimated(world, recipe)
    assert found.tokens_from == "a guess: 256 rows at most, read with the base's tokenizer"
    # 38 characters, most of them a token each in the tests' tokenizer, and 5 for each turn around them.
    assert 128 * 20 < found.tokens_per_epoch < 128 * 48
    assert found.price is None
    assert found.price_from == "no price is set for H100; set one in tenants.yaml: gpu_prices: {H100: …}"


@pytest.mark.parametrize(
    ("gpu_type", "words"),
    [
        (None, "hardware.gpu_type is not set"),
        ("A100", "the GPU type 'A100' is unknown; did you mean 'A100-40' or 'A100-80'?"),
    ],
)
def test_an_unknown_gpu_is_estimated_without_time_fit_and_price(world: World, gpu_type: str | None, words: str) -> None:
    found = packed(world, gpu_type=gpu_type)
    assert (found.gpu_hours, found.price, found.fits, found.gpu_memory) == (None, None, None, None)
    assert found.rough_seconds is not None
    assert "GPUs from B200 to T4" in found.seconds_from
    assert words in found.gpu_hours_from
    assert found.memory is not None


def test_before_the_first_training_on_a_cpu_the_time_is_a_rough_range(world: World) -> None:
    path = world.project.recipe("cpu.v1", hardware={"gpus": 0})
    recipe = register_recipe(world.store, path, actor="ann").key
    found = estimated(world, recipe)
    assert found.seconds is None
    assert found.rough_seconds is not None
    assert 0 < found.rough_seconds.lower < found.rough_seconds.upper < 3600
    assert re.match(r"arithmetic for \d+ CPU cores, as this machine has; the base model is not", found.seconds_from)
    assert any(value.startswith("about ") for name, value, _ in rows_of(found) if name == "training time")
    # Once it is measured there, the figure is of the tenant's own trainings.
    world.trained(recipe, 500.0)
    measured = estimated(world, recipe)
    assert (measured.rough_seconds, measured.seconds) == (None, pytest.approx(measured.tokens / 500))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "newest", "vocab_size": 32000}, "unknown architecture 'newest'"),
        (
            {**LLAMA_3_8B, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 9},
            "config.json: num_experts_per_tok is 9, of 8 experts; a usual decoder",
        ),
    ],
)
def test_an_unknown_architecture_or_a_config_that_makes_no_sense_is_rough_and_says_so(world, config, reason) -> None:
    recipe = world.recipe()
    world.prepare(recipe, config=config)
    world.pack(recipe)
    found = estimated(world, recipe)
    assert found.memory_from.startswith(f"rough: {reason}")
    assert found.memory.upper > 2 * found.memory.lower
    assert 0 < found.gpu_hours.lower < found.gpu_hours.expected < 10


def test_packed_documents_of_a_base_that_cannot_pack_them_are_refused(world: World) -> None:
    recipe = world.recipe(packing="packed")
    world.prepare(recipe, config={**LLAMA_3_8B, "model_type": "mamba"})
    with pytest.raises(BadRecipe, match="it has state-space layers"):
        estimated(world, recipe)


def test_the_tenant_s_own_trainings_on_this_hardware_are_better_than_the_formula(world: World) -> None:
    world.trained(world.recipe("past.v1"), 1000.0)
    found = packed(world, "other.v1")
    assert found.seconds_from == "the last training on this base and hardware, at 1,000 tokens/s"
    assert found.gpu_hours.expected < 1.4 * found.gpu_hours.lower
    assert found.seconds == 20_000
    elsewhere = world.recipe("elsewhere.v1", gpu_type="H200")
    assert "arithmetic" in estimate_training(world.artifacts, load_tenants(), DATASET, elsewhere).seconds_from


def test_a_training_of_another_shape_is_converted_by_its_operations_and_says_so(world: World) -> None:
    world.trained(world.recipe("past.v1", rank=512), 1000.0)
    found = packed(world, "other.v1", rank=8)
    # Adapters of rank 512 have 1.34e9 parameters, at 6 operations each, beside the base's 7.5e9 at 4.
    faster = (4 * 7.5e9 + 6 * 1.34e9) / (4 * 7.5e9 + 6 * 2.1e7)
    words, _, rate = found.seconds_from.partition(", at ")
    assert words == ("the last training of another shape on this base and hardware, converted by operations per token")
    assert float(rate.split()[0].replace(",", "")) == pytest.approx(1000 * faster, rel=0.03)
    assert found.gpu_hours.expected > 1.45 * found.gpu_hours.lower


def test_one_training_of_the_same_shape_counts_for_more_than_many_of_others(world: World) -> None:
    for number in range(4):
        world.trained(world.recipe(f"past{number}.v1", max_length=2048, rank=4 + number), 5000.0)
    world.trained(world.recipe("same.v1"), 1000.0)
    recipe = world.recipe("other.v1")
    assert estimated(world, recipe).seconds_from.endswith("hardware, at 1,000 tokens/s")


@pytest.mark.parametrize(
    ("past", "told"),
    [
        ({"micro_batch_size": 8}, {}),
        ({"max_length": 512}, {}),
        ({"variant": "full"}, {}),
        # No attempt tells on which machine it was.
        ({}, {"with_attempt": False}),
    ],
)
def test_trainings_with_far_other_forward_passes_methods_or_machines_say_nothing(world, past, told) -> None:
    world.trained(world.recipe("past.v1", **past), 1000.0, **told)
    assert "arithmetic" in packed(world, "other.v1").seconds_from


def test_a_recipe_file_is_estimated_without_being_registered_and_says_what_is_not_at_hand(world: World) -> None:
    world.prepare(world.recipe())
    path = world.project.recipe("draft.v1", hardware={"gpus": 1, "gpu_type": "L4"})
    found = estimate_file(world.artifacts, load_tenants(), DATASET, path)
    assert "from config.json" in found.memory_from
    assert found.fits is Fits.YES
    assert "read with the base's tokenizer" in found.tokens_from
    assert not world.store.exists("names/recipe/draft.v1.json")
    path = world.project.recipe("draft.v1", base="hub:acme/huge@main", hardware={"gpus": 1, "gpu_type": "L4"})
    found = estimate_file(world.artifacts, load_tenants(), DATASET, path)
    assert (found.memory, found.gpu_hours) == (None, None)
    assert found.memory_from == "nothing: the base is not available"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu_prices: {H10O: 3.5}", "there is no GPU type 'H10O'; did you mean 'H100'?"),
        ("gpu_prices: {H100: 3.5, nvidia-h100: 4}", "'nvidia-h100' and 'H100' are the same GPU type"),
        ("gpu_prices: {H100: -1}", "gpu_prices.H100: should be at least 0"),
        ("gpu_prices: {H100: cheap}", "gpu_prices.H100: should be a number"),
        ("gpu_price: {H100: 3}", "did you mean 'gpu_prices'?"),
        ("tiers: {trial: {max_gpu_hours: 0}}", "max_gpu_hours"),
    ],
)
def test_prices_and_limits_that_mean_nothing_are_refused_by_their_place(tmp_path, text, message) -> None:
    path = tmp_path / "tenants.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        load_tenants(path)
    assert message in str(error.value)


def test_a_training_in_a_part_costs_the_part_and_is_requested_there(world: World, tenants: Tenants) -> None:
    tenants("gpu_prices: {H100: 4.0}\n")
    recipe = world.recipe(max_length=1024, parts=["H100-1g.10gb", "H100-3g.40gb"])
    world.pack(recipe)
    found = estimated(world, recipe)
    settings = {path: (value, origin) for path, value, origin in found.settings}
    assert settings["hardware.gpu_type"][0] == "H100-3g.40gb"
    assert settings["hardware.gpu_type"][1].startswith("auto: the smallest part that is certain to fit the training")
    assert found.fits is Fits.YES
    # Four eighths of an H100's memory are more than its three of seven slices.
    assert found.price_from == "2.00 USD per hour of one H100-3g.40gb"
    assert "a part that counts as 0.5 of a GPU" in found.gpu_hours_from
    assert found.seconds is not None
    assert found.gpu_hours.expected == pytest.approx(0.5 * found.seconds / 3600, rel=0.2)
    assert found.price.expected == pytest.approx(4.0 * found.gpu_hours.expected)
    asked = identity.checkpoint_request(world.artifacts, DATASET, recipe).resources
    assert (asked.gpu_type, asked.larger_gpu_type) == ("H100-3g.40gb", "H100")
    evaluated = identity.baseline_report_request(world.artifacts, recipe).resources
    assert (evaluated.gpu_type, evaluated.larger_gpu_type) == ("H100", None)


def test_the_rate_of_a_training_in_a_part_says_nothing_of_whole_gpus(world: World) -> None:
    part = world.recipe("part.v1", max_length=1024, parts=["H100-3g.40gb"])
    same = world.recipe("same.v1", max_length=1024, gpu_type="H100-3g.40gb")
    whole = world.recipe("whole.v1", max_length=1024)
    world.trained(part, 1234.0)
    for recipe in (same, whole):
        world.pack(recipe)
    found = {key: estimate_training(world.artifacts, load_tenants(), DATASET, key) for key in (same, whole)}
    assert "the last training" in found[same].seconds_from
    assert "arithmetic" in found[whole].seconds_from
