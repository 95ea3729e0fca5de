"""Recipes: every setting described, senseless ones named, equal ones equal."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from ft_assets.control.auto.resolve import resolve, training_settings, with_written, written_paths
from ft_assets.control.recipes.load import load_recipe
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.schema import json_schema
from ft_assets.workers.suites.kinds.registry import KINDS
from ft_assets.workers.suites.suite_task import SuiteTask
from ft_resources.canonical import digest
from ft_resources.errors import BadRecipe
from ft_resources.strict import _models_in, parse_strict

DIGEST = "0" * 64


def recipe(**changes: Any) -> Recipe:
    return parse_strict(Recipe, {"key": "tiny.v1", "base": "folder:./base", **changes}, "recipe.yaml")


def complaint(**changes: Any) -> str:
    with pytest.raises(BadRecipe) as caught:
        recipe(**changes)
    return caught.value.what


def models_below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for child in _models_in(field.annotation):
            yield from models_below(child)


@pytest.mark.parametrize("root", [Recipe, SuiteTask, *(kind.task for kind in KINDS.values())])
def test_every_public_field_is_described(root: type[BaseModel]) -> None:
    for model in models_below(root):
        for name, field in model.model_fields.items():
            description = field.description or ""
            assert len(description) > 10, f"{model.__name__}.{name} is not described"
            assert description.endswith("."), f"{model.__name__}.{name} is not described by a sentence"


def test_a_recipe_needs_only_a_key_and_a_base_and_the_rest_follows_from_variant_and_gpus() -> None:
    settled, _ = resolve(recipe())
    assert settled.training.learning_rate == 2e-4
    assert settled.training.precision == "fp32"
    assert settled.hardware.device == "cpu"
    assert resolve(recipe(variant="full"))[0].training.learning_rate == 2e-5
    settled, origins = resolve(recipe(hardware={"gpus": 1}))
    assert (settled.hardware.device, settled.training.precision) == ("cuda", "bf16")
    assert origins["training.precision"] == "auto: bf16 on cuda"


def test_every_setting_has_an_origin_and_resolving_again_changes_nothing() -> None:
    settled, origins = resolve(recipe(training={"epochs": 2, "learning_rate": 0.1}))
    assert origins["training.epochs"] == "recipe"
    assert origins["training.learning_rate"] == "recipe"
    assert origins["training.seed"] == "default"
    assert set(origins) == set(flat(settled.model_dump()))
    settled, _ = resolve(recipe())
    assert resolve(settled)[0] == settled
    assert resolve(recipe(lora={"alpha": "auto"}))[1]["lora.alpha"].startswith("auto: ")


def test_a_recipe_settles_what_it_can_and_says_of_the_rest_what_it_waits_for() -> None:
    settled, origins = resolve(recipe())
    open_ = {path for path, value in flat(settled.model_dump()).items() if value == "auto"}
    assert open_ == {
        "lora.rank",
        "lora.alpha",
        "training.epochs",
        "training.global_batch_size",
        "training.micro_batch_size",
        "training.recompute",
        "hardware.sharding",
    }
    assert {origins[path] for path in open_} == {"auto: resolved per dataset, from its size, the base and the GPUs"}
    assert resolve(recipe(lora={"rank": 8}))[1]["lora.alpha"] == "auto: twice the rank of 8"


def flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, item in value.items():
        found |= flat(item, f"{prefix}{name}.") if isinstance(item, dict) else {f"{prefix}{name}": item}
    return found


written = st.fixed_dictionaries(
    {},
    optional={
        "description": st.text(max_size=20),
        "variant": st.sampled_from(["lora", "full"]),
        "lora": st.fixed_dictionaries(
            {}, optional={"rank": st.integers(1, 1024), "target_modules": st.just(["q_proj", "v_proj"])}
        ),
        "training": st.fixed_dictionaries(
            {}, optional={"epochs": st.integers(1, 9), "learning_rate": st.just("auto") | st.floats(1e-6, 1.0)}
        ),
        "evaluation": st.fixed_dictionaries({}, optional={"seed": st.integers(0, 99)}),
    },
)


@given(written)
def test_a_stored_recipe_means_and_explains_the_same_as_the_written_one(changes: dict[str, Any]) -> None:
    first = recipe(**changes)
    stored = parse_strict(Recipe, first.model_dump(mode="json"), "store")
    again = with_written(stored, written_paths(first))
    assert again == first
    assert resolve(again) == resolve(first)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"trainin": {}}, "trainin: unknown key; did you mean 'training'?"),
        ({"training": {"learning_rat": 1}}, "training.learning_rat: unknown key; did you mean 'learning_rate'?"),
        ({"gates": {"task_gain": {"min_relativ": 1}}}, "gates.task_gain.min_relativ: unknown key; did you mean 'min_r"),
        ({"method": "rlhf"}, "method: should be 'sft'"),
        ({"base": "artifact:acme/adapter/123"}, "base: should be artifact:TENANT/adapter/FINGERPRINT"),
        ({"base": "./base"}, "base: should be folder:PATH"),
        ({"base": "hub:org/name"}, "such as hub:org/name@main"),
        ({"base": "hub:org/../x@main"}, "should be hub:ORG/NAME@REVISION"),
        ({"base": "hub:órg/name@main"}, "should be hub:ORG/NAME@REVISION"),
        ({"base": "hub:org/name@main\n"}, "an invisible character"),
        ({"base": "folder:a\0b"}, "an invisible character"),
        ({"base": "folder:sha256:abc"}, "64 lower-case hexadecimal"),
        ({"key": "Tiny.v1"}, "key: 'Tiny' cannot be part of a recipe key"),
        ({"key": "tiny"}, "key: a recipe key has the form"),
        (
            {"training": {"micro_batch_size": 7, "global_batch_size": 64}},
            "micro_batch_size (7) should divide global_batch_size (64)",
        ),
        ({"training": {"epochs": 0}}, "training.epochs: should be at least 1"),
        ({"training": {"epochs": 1.5}}, "training.epochs"),
        ({"training": {"learning_rate": 0}}, "training.learning_rate: should be more than 0"),
        ({"training": {"learning_rate": float("nan")}}, "training.learning_rate"),
        ({"lora": {"alpha": 0}}, "lora.alpha"),
        ({"lora": {"target_modules": []}}, "lora.target_modules"),
        ({"lora": {"target_modules": ["q_proj", "q_proj"]}}, "lora.target_modules: a value is listed twice"),
        ({"packing": {"max_length": 3}}, "packing.max_length"),
        ({"hardware": {"device": "cuda"}}, "hardware: device cuda needs gpus"),
        ({"hardware": {"device": "cpu", "gpus": 1}}, "contradict"),
        ({"evaluation": {"suites": []}}, "evaluation.suites"),
        ({"evaluation": {"suites": ["tiny"]}}, "evaluation.suites[0]: a suite key has the form"),
        ({"evaluation": {"suites": ["a.v1", "a.v1"]}}, "evaluation.suites: a value is listed twice"),
        ({"evaluation": {"holdout": {"metrics": []}}}, "gates.task_gain.metric: 'exact_match' is not measured"),
        ({"chat_template": ""}, "chat_template"),
    ],
)
def test_a_senseless_setting_is_named(changes: dict[str, Any], expected: str) -> None:
    assert expected in complaint(**changes)


def test_perplexity_is_always_measured() -> None:
    recipe(evaluation={"holdout": {"metrics": []}}, gates={"task_gain": {"metric": "perplexity"}})


@pytest.mark.parametrize(
    "base",
    ["folder:/models/x", f"folder:sha256:{DIGEST}", "hub:org/name@main", "hub:gpt2@607a30d", "hub:o/n@refs/pr/1"],
)
def test_every_form_of_base_is_read(base: str) -> None:
    assert recipe(base=base).base_reference is not None


def test_recipes_are_frozen_and_hashable() -> None:
    one = recipe(lora={"target_modules": ["q_proj"]})
    assert len({one, recipe(lora={"target_modules": ["q_proj"]})}) == 1
    with pytest.raises(ValidationError):
        one.training.epochs = 3  # type: ignore[misc]


def test_only_what_touches_tokens_decides_a_pack_and_no_cadence_hardware_or_written_default_a_checkpoint() -> None:
    first = recipe().token_settings()
    assert recipe(training={"learning_rate": 0.5}, lora={"rank": 2}, key="other.v9").token_settings() == first
    assert recipe(packing={"max_length": 512}).token_settings() != first
    assert recipe(chat_template="{{ x }}").token_settings() != first
    assert recipe(training={"seed": 1}).token_settings() != first
    first = training_settings(recipe())
    other = recipe(
        training={"checkpoint_every_steps": 7, "checkpoint_every_minutes": 1.0, "recompute": "on"},
        hardware={"max_gpu_hours": 2.0, "sharding": "zero2"},
        gates={"task_gain": {"min_relative": 0.5}},
    )
    assert training_settings(other) == first
    assert training_settings(recipe(training={"epochs": 2})) != first
    written_out = recipe(lora={"rank": 4, "alpha": 8}, training={"learning_rate": 2e-4, "precision": "fp32"})
    assert training_settings(written_out) == training_settings(recipe(lora={"rank": 4}))
    assert training_settings(recipe(variant="full", lora={"rank": 2})) == training_settings(recipe(variant="full"))


def test_a_new_setting_moves_no_checkpoint_that_was_trained_before_it() -> None:
    """Equal settings, equal addresses: of the demo's recipe, which spells out what it relies on."""
    demo = load_recipe(Path(__file__).parents[3] / "ft_assets" / "demo" / "recipe.yaml")
    assert digest(training_settings(demo)).startswith("a35d69b8f2e87a6f")
    assert digest(demo.token_settings()).startswith("c13c5405e269c118")
    assert "auto" not in flat(training_settings(demo)).values()


PLAIN = {"key": "tiny.v1", "base": "hub:acme/tiny@main"}


def test_a_recipe_without_exports_is_stored_as_before_there_were_any() -> None:
    assert "exports" not in Recipe.model_validate(PLAIN).model_dump(mode="json")
    assert Recipe.model_validate({**PLAIN, "exports": ["merged"]}).model_dump(mode="json")["exports"] == ["merged"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exports": ["onnx"]}, "Input should be 'merged', 'gguf-q8_0'"),
        ({"exports": ["merged"], "variant": "full"}, "with nothing to merge"),
        ({"exports": ["merged"], "gates": "none"}, "use ft export for others"),
    ],
)
def test_what_could_never_be_exported_is_refused_with_the_recipe(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Recipe.model_validate({**PLAIN, **changes})


COMMITTED = Path(__file__).parents[3] / "docs" / "recipe.schema.json"


def test_the_committed_schema_is_current_and_editors_learn_ranges_and_refuse_unknown_keys() -> None:
    assert COMMITTED.read_text() == json_schema("recipe"), (
        "run: python -m ft_assets.settings.schema recipe > docs/recipe.schema.json"
    )
    schema = json.loads(json_schema("recipe"))
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["key", "base"]
    assert schema["$defs"]["LoraSettings"]["properties"]["rank"]["anyOf"][0]["maximum"] == 1024
