"""Recipes that continue an accepted adapter: what may be named, what is locked, and what the training is made of."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets.control import identity
from ft_assets.control.erasure.collect import collect, look
from ft_assets.control.identity.doctor import refuse_read_holdout
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.registry.register import RegisteredRecipe, register_locked, register_recipe
from ft_assets.control.registry.warm_start import AtStage
from ft_assets.control.retention.roots import roots
from ft_assets.records.erased import record_erasure, remove_bytes
from ft_assets.records.tombstones import Subject, delete
from ft_assets.settings.keys import DatasetKey
from ft_assets.workers.training import read_before
from ft_assets.workers.training.earlier import WARM_START_INPUT
from ft_resources.artifacts import Artifact
from ft_resources.errors import BadData, BadRecipe, Deleted, UserError
from ft_resources.store import Store
from tests.control.registry.conftest import refused as refused_in
from tests.control.submissions.conftest import world
from tests.control.submissions.estimate_world import DATASET, World
from tests.made import leave

__all__ = ["world"]

FIRST, NEXT, LINE = "acme.first.v1", "acme.next.v1", "acme.colours.first"
CONFIG = {"r": 16, "lora_alpha": 32, "use_rslora": False, "use_dora": False}


def an_adapter(world: World, recipe: str = FIRST, **config: Any) -> Artifact:
    """The accepted adapter of ``recipe`` with ``config`` in its file; all that it was made of is there."""
    if not (world.project.folder / f"{recipe}.yaml").exists():
        world.recipe(recipe)
    world.pack(recipe)
    artifacts, pair = world.artifacts, (DATASET, recipe)
    files = {
        "recipe.json": json.dumps({"lora": {"target_modules": "all-linear"}}).encode(),
        "adapter_config.json": json.dumps({**CONFIG, **config}).encode(),
        "adapter_model.safetensors": b"weights",
    }
    for request in (identity.checkpoint_request, identity.eval_report_request, identity.adapter_request):
        made = leave(artifacts, request(artifacts, *pair), files, {"line": LINE, "tokens_per_s": 1.0})
    return made


def write(world: World, start: str, key: str = NEXT, *, lora: Any = None, **changes: Any) -> Path:
    """The recipe file of a training that continues ``start``."""
    settings = {"training": {"max_steps": 4, "warm_start": start}, "hardware": {"gpus": 1, "gpu_type": "H100"}}
    path = world.project.recipe(key, **{**settings, **changes})
    recipe = yaml.safe_load(path.read_text())
    recipe.pop("lora", None)
    path.write_text(yaml.safe_dump({**recipe, "lora": lora} if lora else recipe))
    return path


def register(world: World, path: Path, at_stage: AtStage | None = None) -> RegisteredRecipe:
    return register_recipe(world.store, path, actor="ann", at_stage=at_stage)


def refused(world: World, path: Path, error: type[UserError] = BadRecipe, at_stage: AtStage | None = None) -> str:
    return refused_in(world.store, path, error, at_stage=at_stage)


def test_the_training_is_made_of_the_adapter_and_the_recipe_takes_its_rank_and_scale(world: World) -> None:
    adapter = an_adapter(world, r=8, lora_alpha=24)
    register(world, write(world, f"artifact:{adapter.address}"))
    recipe = get_recipe(world.store, NEXT).recipe
    assert (recipe.training.warm_start, recipe.lora.rank, recipe.lora.alpha) == (f"artifact:{adapter.address}", 8, 24)
    world.pack(NEXT)
    request = identity.checkpoint_request(world.artifacts, DATASET, NEXT)
    assert request.inputs[WARM_START_INPUT] == adapter.ref
    assert request.params["training"]["warm_start"] == f"artifact:{adapter.address}"
    assert WARM_START_INPUT not in identity.checkpoint_request(world.artifacts, DATASET, FIRST).inputs


def test_a_method_that_compares_compares_with_the_continued_adapter(world, monkeypatch) -> None:
    adapter = an_adapter(world)
    gates = {"task_gain": {"metric": "preference_accuracy", "min_relative": 0.05}}
    register(world, write(world, f"artifact:{adapter.address}", method="dpo", gates=gates))
    # Whatever pack it is: a dataset has one form, and the earlier recipe learned from chats.
    pack = world.pack(FIRST)
    monkeypatch.setattr("ft_assets.control.identity.training.token_pack", lambda *_: pack)
    request = identity.reference_logps_request(world.artifacts, DATASET, NEXT)
    base = identity.base_model(world.artifacts, NEXT)
    assert (request.inputs["reference"], request.inputs["base"]) == (adapter.ref, base.ref)


@pytest.mark.parametrize("form", ["address", "short", "pair", "stage"])
def test_what_is_named_is_locked_and_stays_so_wherever_its_line_goes(world: World, form: str) -> None:
    adapter = an_adapter(world)
    named = {
        "address": f"artifact:{adapter.address}",
        "short": f"artifact:acme/adapter/{adapter.address.fingerprint[:8]}",
        "pair": f"artifact:{DATASET}|{FIRST}",
        "stage": f"artifact:{LINE}@production",
    }[form]
    stands = {(LINE, "production"): str(adapter.address)}

    def at_stage(_: Store, line: str, stage: str) -> str | None:
        return stands.get((line, stage))

    path = write(world, named)
    first = register(world, path, at_stage)
    assert get_recipe(world.store, NEXT).recipe.training.warm_start == f"artifact:{adapter.address}"
    # The line is promoted further, and the file is registered once more.
    stands[LINE, "production"] = f"acme/adapter/{'0' * 64}"
    again = register(world, path, at_stage)
    assert (again.created, again.digest) == (False, first.digest)
    world.pack(NEXT)
    assert identity.checkpoint_request(world.artifacts, DATASET, NEXT).inputs[WARM_START_INPUT] == adapter.ref


def test_the_trials_of_a_sweep_continue_the_same_adapter_and_it_stays_as_long_as_a_recipe_names_it(world) -> None:
    adapter = an_adapter(world, r=8, lora_alpha=16)
    path = write(world, f"artifact:{DATASET}|{FIRST}")
    recipe = yaml.safe_load(path.read_text())
    del recipe["training"]["learning_rate"]
    recipe["sweep"] = {"search": "grid", "parameters": {"training.learning_rate": [1e-3, 1e-4]}}
    path.write_text(yaml.safe_dump(recipe))
    trials = [get_recipe(world.store, key).recipe for key in register(world, path).trials]
    assert {each.training.warm_start for each in trials} == {f"artifact:{adapter.address}"}
    assert {(each.lora.rank, each.lora.alpha) for each in trials} == {(8, 16)}
    assert str(adapter.address) in roots(world.artifacts, look(world.artifacts, whole=True))


def test_a_stage_where_nothing_stands_and_an_erased_adapter_are_refused(world: World) -> None:
    text = refused(world, write(world, f"artifact:{LINE}@staging"), at_stage=lambda *_: None)
    assert f"nothing is in staging of {LINE}" in text
    adapter = an_adapter(world)
    tombstone, _ = delete(world.store, Subject.adapter(adapter.address), actor="ann", reason="asked")
    record_erasure(world.store, adapter, tombstone, "2026-01-01T00:00:00+00:00")
    remove_bytes(world.store, adapter.address)
    text = refused(world, write(world, f"artifact:{adapter.address}", lora={"rank": 16, "alpha": 32}))
    assert "it was erased, deleted by ann" in text


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        (f"artifact:acme/checkpoint/{'0' * 64}", "what a training continues is an accepted adapter, not a checkpoint"),
        (f"artifact:acme/adapter/{'0' * 64}", "no accepted adapter acme/adapter/000"),
        ("artifact:acme/adapter/0000", "no adapters start with acme/adapter/0000"),
        (f"artifact:{LINE}@canary", "should be artifact:TENANT/adapter/FINGERPRINT"),
        ("folder:./adapter", "should be artifact:ADDRESS, artifact:DATASET|RECIPE or artifact:LINE@STAGE"),
        (f"artifact:{DATASET}|acme.first.v7", "there is no recipe"),
    ],
)
def test_only_accepted_adapters_that_are_there_can_be_continued(world: World, start: str, reason: str) -> None:
    assert reason in refused(world, write(world, start), UserError)


@pytest.mark.parametrize("key", ["globex.next.v1", "next.v1"])
@pytest.mark.parametrize("form", ["address", "short", "pair", "stage"])
def test_another_tenants_adapter_cannot_be_named_whether_it_is_there_or_not(world: World, key: str, form: str) -> None:
    forms = {
        "address": f"acme/adapter/{'0' * 64}",
        "short": "acme/adapter/0000",
        "pair": f"{DATASET}|{FIRST}",
        "stage": f"{LINE}@production",
    }
    absent = refused(world, write(world, f"artifact:{forms[form]}", key))
    assert "adapter" in absent
    assert "'acme'" in absent
    adapter = an_adapter(world)
    forms |= {"address": str(adapter.address), "short": f"acme/adapter/{adapter.address.fingerprint[:8]}"}
    assert refused(world, write(world, f"artifact:{forms[form]}", key)) == absent


@pytest.mark.parametrize(
    ("config", "lora", "reason", "remedy"),
    [
        ({"r": 8}, {"rank": 16}, "lora.rank is 16, not 8", "rank: 8"),
        ({"lora_alpha": 8}, {"alpha": 32}, "lora.alpha is 32, not 8", "alpha: 8"),
        ({"use_dora": True}, {}, "lora.use_dora is false, not true", "use_dora: true"),
        ({}, {"use_rslora": True, "alpha": 32}, "lora.use_rslora is true, not false", "use_rslora: false"),
        ({}, {"target_modules": ["q_proj"]}, "lora.target_modules is [q_proj], not all-linear", "all-linear"),
        ({"lora_alpha": 22.6}, {}, "is one of pissa with rslora", "base: artifact:"),
    ],
)
def test_another_shape_is_refused_with_what_to_write(world, config, lora, reason, remedy) -> None:
    adapter = an_adapter(world, **config)
    error = refused(world, write(world, f"artifact:{adapter.address}", lora=lora))
    said, _, instead = error.partition("What to do:")
    assert reason in said
    assert remedy in instead
    assert f"base: artifact:{adapter.address}" in instead


def test_an_adapter_of_another_base_is_refused_when_registered_and_when_the_base_moves_later(world: World) -> None:
    adapter = an_adapter(world)
    config = world.project.folder / "base" / "config.json"
    config.write_text(config.read_text().replace("8192", "4096"))
    text = refused(world, write(world, f"artifact:{adapter.address}"))
    assert f"{adapter.address} was trained on the base folder:sha256:" in text
    assert "the adapter that was carried to it" in text
    # A successor is the recipe as it was, on the base that moved.
    path = write(world, f"artifact:{adapter.address}")
    recipe = yaml.safe_load(path.read_text())
    del recipe["training"]["warm_start"]
    path.write_text(yaml.safe_dump(recipe))
    moved = register(world, path).lock
    first = get_recipe(world.store, NEXT).recipe
    training = first.training.model_copy(update={"warm_start": f"artifact:{adapter.address}"})
    following = first.model_copy(update={"key": "acme.next.v2", "training": training})
    register_locked(world.store, following, moved, actor="sensor")
    world.pack("acme.next.v2")
    with pytest.raises(BadRecipe, match="was trained on the base"):
        identity.checkpoint_request(world.artifacts, DATASET, "acme.next.v2")


@pytest.mark.parametrize("gone", ["adapter", "dataset"])
def test_nothing_new_is_made_of_an_adapter_that_was_deleted_and_what_was_made_stays(world: World, gone: str) -> None:
    adapter = an_adapter(world)
    path = write(world, f"artifact:{adapter.address}")
    register(world, path)
    world.pack(NEXT)
    other = write(world, f"artifact:{adapter.address}", "acme.other.v1")
    trained = identity.checkpoint_request(world.artifacts, DATASET, NEXT)
    subject = Subject.adapter(adapter.address)
    if gone == "dataset":
        subject = Subject.dataset(DatasetKey.parse(DATASET))
    delete(world.store, subject, actor="ann", reason="asked")
    assert "deleted by ann" in refused(world, other, Deleted)
    with pytest.raises(Deleted):
        identity.checkpoint_request(world.artifacts, DATASET, NEXT)
    if gone == "adapter":
        world.make(trained, {})
        assert identity.checkpoint(world.artifacts, DATASET, NEXT).manifest.inputs[WARM_START_INPUT] == adapter.ref


def test_what_continues_an_adapter_keeps_it_when_its_dataset_or_it_is_deleted(world: World) -> None:
    adapter = an_adapter(world)
    register(world, write(world, f"artifact:{adapter.address}"))
    world.pack(NEXT)
    made = world.make(identity.checkpoint_request(world.artifacts, DATASET, NEXT), {})
    delete(world.store, Subject.adapter(adapter.address), actor="ann", reason="asked", grace_days=0)
    plan = collect(world.artifacts, datetime.now(UTC) + timedelta(days=1)).plan
    assert str(adapter.address) in plan.kept
    assert world.artifacts.find(made.address) is not None
    assert world.artifacts.find(adapter.address) is not None


def test_a_holdout_that_the_continued_adapter_has_learned_is_refused_before_the_training(world, monkeypatch) -> None:
    adapter = an_adapter(world)
    register(world, write(world, f"artifact:{adapter.address}"))
    read = iter([0, 3])
    monkeypatch.setattr(read_before, "holdout_read_before", lambda *_: next(read))
    refuse_read_holdout(world.artifacts, DATASET, FIRST)
    refuse_read_holdout(world.artifacts, DATASET, NEXT)
    with pytest.raises(BadData, match=f"3 holdout row.* were training rows of .*{adapter.address}"):
        refuse_read_holdout(world.artifacts, DATASET, NEXT)
