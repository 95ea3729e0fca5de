"""Settled settings of a pair in a store: they name the checkpoint, and recipes that mean the same share it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets.control import identity
from ft_assets.control.planning.estimate import estimate_training
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.registry.register import register_recipe
from ft_assets.graph.assets.checkpoints import _configuration
from ft_assets.settings.recipe.shown import RECORD, configuration_record
from ft_assets.settings.tenants import load_tenants
from ft_resources.artifacts import Artifact
from ft_resources.errors import BadRecipe, UserError
from tests.control.submissions.estimate_world import DATASET, World, make_world, world_in
from tests.made import leave

OPEN: dict[str, Any] = {"lora": {}, "training": {}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    make_world(tmp_path)
    return world_in(tmp_path)


def register(world: World, key: str, **changes: Any) -> str:
    """A recipe for one L40S, with these settings and otherwise none of the project's."""
    hardware = {"gpus": 1, "gpu_type": "L40S", **changes.pop("hardware", {})}
    path = world.project.recipe(key)
    file = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(file | OPEN | {"packing": {"max_length": 4096}, "hardware": hardware} | changes))
    return register_recipe(world.store, path, actor="ann").key


def spelt_out(world: World, recipe: str, key: str) -> str:
    """A recipe ``key`` that spells out everything that ``recipe`` settles."""
    params = identity.checkpoint_request(world.artifacts, DATASET, recipe).params
    return register(world, key, lora=params["lora"], training=params["training"])


def prepared(world: World, *recipes: str) -> None:
    for key in recipes:
        world.pack(key, examples=40_000)


def trained(world: World, recipe: str) -> Artifact:
    """A checkpoint that records its settings, as the trainer writes it."""
    request = identity.checkpoint_request(world.artifacts, DATASET, recipe)
    record = configuration_record(request.params, request.runtime, request.label)
    files = {"recipe.json": json.dumps(request.params).encode(), RECORD: json.dumps(record).encode()}
    return leave(world.artifacts, request, files)


def test_recipes_that_come_to_the_same_share_a_checkpoint_and_say_whose_it_was(world: World) -> None:
    open_ = register(world, "open.v1")
    prepared(world, open_)
    spelt = spelt_out(world, open_, "spelt.v1")
    first, second = (identity.checkpoint_request(world.artifacts, DATASET, key) for key in (spelt, open_))
    assert second.params == first.params
    assert second.address == first.address
    assert (first.runtime["recompute"], second.runtime["recompute"]) == (2, 2)
    assert "auto" not in json.dumps(second.params)
    assert first.runtime["origins"]["training.epochs"] == "recipe"
    assert second.runtime["origins"]["training.epochs"] == "auto: one epoch for 40,000 examples (above 10,000)"

    artifact = trained(world, spelt)
    shown = {
        key: _configuration(artifact, identity.pair_configuration(world.artifacts, DATASET, key), f"{DATASET}|{key}")
        for key in (spelt, open_)
    }
    assert "duplicate_of" not in shown[spelt]
    assert str(shown[open_]["duplicate_of"].value).startswith(f"{DATASET}|{spelt}: the same settings")
    assert shown[spelt]["configuration_hash"] == shown[open_]["configuration_hash"]
    table = str(shown[open_]["resolved_configuration"].value)
    assert "| `training.epochs` | 1 | auto: one epoch for 40,000 examples (above 10,000) |" in table
    assert "| `training.schedule` | cosine | default |" in table


def test_another_number_of_nodes_trains_the_same_checkpoint(world: World) -> None:
    written = {"training": {"global_batch_size": 64, "micro_batch_size": 1, "recompute": "on", "epochs": 1}}
    one = register(world, "one.v1", **written)
    two = register(world, "two.v1", **written, hardware={"nodes": 2})
    prepared(world, one, two)
    alone, together = (identity.checkpoint_request(world.artifacts, DATASET, key) for key in (one, two))
    assert alone.address == together.address
    assert [each.runtime["nodes"] for each in (alone, together)] == [1, 2]
    # 8 billion weights in bf16 and some activations, according to the estimate.
    expected = estimate_training(world.artifacts, load_tenants(), DATASET, one).memory
    assert expected is not None
    assert alone.runtime["predicted_memory_bytes"] == round(expected.expected)
    assert 16e9 < expected.expected < 40e9


def test_a_report_on_what_is_no_pairs_is_told_nothing_of_them(world: World) -> None:
    key = world.recipe()
    world.trained(key, 100.0)
    assert set(identity.eval_report_request(world.artifacts, DATASET, key).params) == {
        "evaluation",
        "variant",
        "chat_template",
    }


def test_tokens_do_not_depend_on_what_a_pair_settles(world: World) -> None:
    spelt, open_ = register(world, "spelt.v1", training={"epochs": 9, "precision": "fp32"}), register(world, "open.v1")
    world.prepare(spelt)
    world.prepare(open_)
    packs = {identity.token_pack_request(world.artifacts, DATASET, key).address for key in (spelt, open_)}
    assert len(packs) == 1


def test_an_estimate_settles_from_what_is_known_and_says_what_is_a_guess(world: World) -> None:
    key = register(world, "open.v1")
    before = {
        name: (value, why)
        for name, value, why in estimate_training(world.artifacts, load_tenants(), DATASET, key).settings
    }
    assert before["lora.rank"][0] == "16"
    assert "about" in before["training.global_batch_size"][1]
    prepared(world, key)
    after = {
        name: (value, why)
        for name, value, why in estimate_training(world.artifacts, load_tenants(), DATASET, key).settings
    }
    request = identity.checkpoint_request(world.artifacts, DATASET, key)
    for name, value in request.params["training"].items():
        assert after[f"training.{name}"][1] == request.runtime["origins"][f"training.{name}"]
        if isinstance(value, int):
            assert after[f"training.{name}"][0] == str(value)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"hardware": {"sharding": "zero3"}}, "shards a training over GPUs"),
        ({"lora": {"target_modules": ["query_proj"]}}, "llama has no module 'query_proj'"),
    ],
)
def test_what_recipe_and_base_tell_is_refused_at_registration(world: World, wrong: Any, reason: str) -> None:
    with pytest.raises(BadRecipe, match=reason):
        register(world, "wrong.v1", **wrong)
    with pytest.raises(UserError, match=r"no recipe 'wrong\.v1'"):
        get_recipe(world.store, "wrong.v1")
