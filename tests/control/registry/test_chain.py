"""Recipes on accepted adapters: whose may be named, what is locked, and that new tokens fit the base."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ft_assets.control import identity
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.successors import register_successor
from ft_assets.settings.recipe.base_ref import AcceptedAdapter, AdapterOfPair, parse_base
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import BadBase, CorruptArtifact, MissingInput
from ft_resources.store import Store
from tests.control.registry.conftest import refused, register
from tests.fake_base import CHAT_TEMPLATE
from tests.fake_hub import FakeHub
from tests.workers.evals.world import World, lora_files

Write = Callable[..., Path]
FULL = {"method": "cpt", "variant": "full", "gates": {"task_gain": {"metric": "perplexity"}}}
TEMPLATE = {"chat_template.jinja": CHAT_TEMPLATE.encode()}


@pytest.fixture
def world(store: Store, tmp_path: Path) -> World:
    return World(store=store, folder=tmp_path)


def an_adapter(world: World, tenant: str = "acme", **params: Any) -> Artifact:
    base = world.base()
    files = {**lora_files(0.1), **TEMPLATE, "tokenizer.json": base.read("tokenizer.json")}
    named = {"dataset": "acme.things.v1", "recipe": "acme.sft.v1", **params}
    return world.publish("adapter", files, tenant=tenant, inputs={"base": base}, params=named)


def a_model(world: World, base: Path) -> Artifact:
    files = {path.name: path.read_bytes() for path in base.iterdir()}
    return world.publish("adapter", {**files, **TEMPLATE}, inputs={"base": world.base()})


def test_a_recipe_on_an_adapter_locks_it_and_the_base_below_it(world: World, write_recipe: Write) -> None:
    adapter = an_adapter(world)
    path = write_recipe(key="acme.dpo.v1", base=f"artifact:{adapter.address}", method="dpo")
    lock = register(world.store, path).lock
    assert (lock.kind, lock.source) == ("artifact", f"artifact:{adapter.address}")
    assert lock.revision == lock.digest == adapter.digest
    assert lock.parent == adapter.manifest.inputs["base"]
    assert get_recipe(world.store, "acme.dpo.v1").lock == lock
    request = identity.base_model_request(world.artifacts, "acme.dpo.v1")
    assert request.tenant == "acme"
    assert request.inputs == {"adapter": adapter.ref, "base": lock.parent}
    # Where inputs lie decides nothing.
    assert not {"upload", "parent"} & set(request.params["lock"])
    assert register_successor(world.store, "acme.dpo.v1", FakeHub(), actor="sensor") is None


def test_an_adapter_that_learned_texts_without_a_template_is_no_base_for_conversations(world, write_recipe) -> None:
    base = world.base()
    files = {**lora_files(0.1), "tokenizer.json": base.read("tokenizer.json")}
    params = {"dataset": "acme.texts.v1", "recipe": "acme.cpt.v1"}
    adapter = world.publish("adapter", files, inputs={"base": base}, params=params)
    path = write_recipe(key="acme.sft.v1", base=f"artifact:{adapter.address}")
    assert "no chat template and the recipe names none" in refused(world.store, path)


def test_a_whole_model_needs_no_base_below_it(world: World, write_recipe: Write, base: Path) -> None:
    model = a_model(world, base)
    lock = register(world.store, write_recipe(key="acme.sft.v1", base=f"artifact:{model.address}")).lock
    assert lock.parent is None
    assert identity.base_model_request(world.artifacts, "acme.sft.v1").inputs == {"adapter": model.ref}


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("rival.dpo.v1", "rival.dpo.v1 belongs to tenant 'rival', and this adapter to 'acme'"),
        ("dpo.v1", "dpo.v1 is shared by all tenants"),
    ],
)
@pytest.mark.parametrize("by_pair", [False, True])
def test_another_tenants_adapter_cannot_be_named_whether_it_is_there_or_not(
    world: World, write_recipe: Write, key: str, reason: str, by_pair: bool
) -> None:
    named = "acme.things.v1|acme.sft.v1" if by_pair else f"acme/adapter/{'0' * 64}"
    absent = refused(world.store, write_recipe(key=key, base=f"artifact:{named}"))
    assert reason in absent
    named = named if by_pair else str(an_adapter(world).address)
    present = refused(world.store, write_recipe(key=key, base=f"artifact:{named}"))
    assert present == absent


def test_what_is_not_in_the_store_or_damaged_there_is_refused(world: World, write_recipe: Write) -> None:
    address = f"acme/adapter/{'0' * 64}"
    text = refused(world.store, write_recipe(key="acme.dpo.v1", base=f"artifact:{address}"))
    assert f"no accepted adapter {address}" in text
    adapter = an_adapter(world)
    path, file = write_recipe(key="acme.dpo.v1", base=f"artifact:{adapter.address}"), "adapter_config.json"
    whole = adapter.read(file)
    world.store.put(adapter.location(file), b"{}")
    assert file in refused(world.store, path, CorruptArtifact)
    world.store.put(adapter.location(file), whole)
    world.store.delete(f"{adapter.manifest.inputs['base'].address}/manifest.json")
    assert "is no longer in the store" in refused(world.store, path)


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        (f"artifact:acme/checkpoint/{'0' * 64}", "is an accepted adapter, not a checkpoint"),
        (f"artifact:acme/base_model/{'0' * 64}", "not a base_model"),
        ("artifact:acme/adapter/0123", "should be artifact:TENANT/adapter/FINGERPRINT"),
        (f"artifact:../adapter/{'0' * 64}", "should be artifact:TENANT/adapter/FINGERPRINT"),
        ("artifact:", "should be artifact:TENANT/adapter/FINGERPRINT"),
        ("artifact:things|sft.v1", "a dataset key has the form tenant.name.vN"),
    ],
)
def test_only_adapters_can_be_named(store: Store, write_recipe: Write, base: str, reason: str) -> None:
    assert reason in refused(store, write_recipe(key="acme.dpo.v1", base=base))


def test_references_are_read_as_they_are_written() -> None:
    address = f"acme/adapter/{'a' * 64}"
    assert parse_base(f"artifact:{address}") == AcceptedAdapter(address=address)
    pair = AdapterOfPair(dataset="acme.things.v1", recipe="sft.v1")
    assert parse_base("artifact:acme.things.v1|sft.v1") == pair


def test_a_pair_means_its_adapter_of_the_day_of_registration_and_one_without_is_refused(
    world, write_recipe, monkeypatch
) -> None:
    def missing(*_: object) -> Artifact:
        raise MissingInput("adapter", "acme.things.v1|acme.sft.v1")

    path = write_recipe(key="acme.dpo.v1", base="artifact:acme.things.v1|acme.sft.v1")
    monkeypatch.setattr(identity, "adapter", missing)
    text = refused(world.store, path)
    assert "has no accepted adapter" in text
    assert "ft run acme.things.v1 acme.sft.v1" in text
    adapter, other = an_adapter(world), an_adapter(world, gates="others")
    monkeypatch.setattr(identity, "adapter", lambda *_: adapter)
    first = register(world.store, path)
    assert get_recipe(world.store, "acme.dpo.v1").recipe.base == f"artifact:{adapter.address}"
    monkeypatch.setattr(identity, "adapter", lambda *_: other)
    again = register(world.store, path)
    assert (again.created, again.digest) == (False, first.digest)
    elsewhere = write_recipe(key="acme.dpo.v1", base="artifact:acme.things.v1|acme.sft.v2")
    assert "it differs in base" in refused(world.store, elsewhere)


def test_a_recipe_without_new_tokens_says_nothing_of_them(store: Store, write_recipe: Write) -> None:
    plain = register(store, write_recipe())
    assert "new_tokens" not in store.get_json("names/recipe/tiny.v1.json")["recipe"]
    assert "new_tokens" not in identity.base_model_request(Artifacts(store), "tiny.v1").params
    assert not register(store, write_recipe(new_tokens=[])).created
    text = refused(store, write_recipe(**FULL, new_tokens=["zq"]))
    assert "gates.task_gain.metric, new_tokens" in text
    assert plain.created


def test_new_tokens_make_a_base_of_the_recipes_owner(store: Store, write_recipe: Write, base: Path) -> None:
    """Words of a tenant stay with it, also on a base that everybody may have."""
    hub = FakeHub()
    hub.commit("org/tiny", base)
    path = write_recipe(key="acme.cpt.v1", base="hub:org/tiny@main", new_tokens=["zanubrutinib"], **FULL)
    register(store, path, hub)
    request = identity.base_model_request(Artifacts(store), "acme.cpt.v1")
    assert (request.tenant, request.params["new_tokens"]) == ("acme", ["zanubrutinib"])
    assert "it differs in new_tokens" in refused(
        store, write_recipe(key="acme.cpt.v1", base="hub:org/tiny@main", **FULL), hub=hub
    )


@pytest.mark.parametrize("kind", ["folder", "digest", "hub", "artifact"])
def test_a_token_that_the_base_has_is_refused_at_registration(world, write_recipe, base, kind) -> None:
    hub = FakeHub()
    hub.commit("org/tiny", base)
    named = {"folder": "folder:./base", "hub": "hub:org/tiny@main"}.get(kind)
    if kind == "digest":
        named = f"folder:sha256:{register_recipe(world.store, write_recipe(), actor='ann').lock.digest}"
    if kind == "artifact":
        named = f"artifact:{a_model(world, base).address}"
    path = write_recipe(key="acme.cpt.v1", base=named, new_tokens=["fine", "<|end|>"], **FULL)
    assert "'<|end|>' cannot be a new token" in refused(world.store, path, BadBase, hub)


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ([""], "new_tokens[0]"),
        ([" "], "should be visible text"),
        (["a\nb"], "should be visible text"),
        (["x" * 65], "new_tokens[0]"),
        (["a", "a"], "a value is listed twice"),
        ([f"t{number}" for number in range(4097)], "new_tokens"),
        ("word", "new_tokens"),
    ],
)
def test_new_tokens_that_make_no_sense_are_refused(store: Store, write_recipe: Write, tokens: Any, reason: str) -> None:
    assert reason in refused(store, write_recipe(**FULL, new_tokens=tokens))
