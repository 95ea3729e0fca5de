import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ft_assets.api import start_base_bumps
from ft_assets.control.auto.resolve import resolve
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.registry.successors import current_recipe, register_successor
from ft_assets.settings.tenants import Subscription, Tenant, TenantsFile
from ft_assets.workers.base_models.context import context_length
from ft_resources.errors import BadBase, BadRecipe
from ft_resources.store import Store
from tests.control.registry.conftest import contents, register
from tests.fake_base import make_fake_base
from tests.fake_hub import FakeHub

Write = Callable[..., Path]
REPO = "org/tiny"


@pytest.fixture
def hub(store: Store, write_recipe: Write, base: Path) -> FakeHub:
    """A hub whose model is the base of the registered recipe tiny.v1."""
    hub = FakeHub()
    hub.commit(REPO, base)
    path = write_recipe(base=f"hub:{REPO}@main", training={"epochs": 3})
    register(store, path, hub)
    return hub


def test_a_base_that_did_not_move_or_lies_in_a_folder_has_no_successor(store, hub, write_recipe) -> None:
    register(store, write_recipe(key="other.v1"))
    before = contents(store)
    for key in ("tiny.v1", "other.v1"):
        assert register_successor(store, key, hub, actor="sensor") is None
        assert current_recipe(store, key) == key
    assert contents(store) == before


def test_a_moved_base_gives_the_next_version_with_the_new_lock(store: Store, hub: FakeHub, base: Path) -> None:
    before = get_recipe(store, "tiny.v1")
    commit = hub.commit(REPO, make_fake_base(base, seed=1))
    assert register_successor(store, "tiny.v1", hub, actor="sensor") == "tiny.v2"
    following = get_recipe(store, "tiny.v2")
    assert following.lock.revision == commit
    assert following.recipe == before.recipe.model_copy(update={"key": "tiny.v2"})
    assert resolve(following.recipe)[1] == resolve(before.recipe)[1]
    assert get_recipe(store, "tiny.v1") == before
    assert current_recipe(store, "tiny.v1") == "tiny.v2"
    assert register_successor(store, "tiny.v1", hub, actor="sensor") is None


def test_a_taken_version_is_passed_over(store: Store, hub: FakeHub, base: Path, write_recipe: Write) -> None:
    register(store, write_recipe(key="tiny.v2"))
    hub.commit(REPO, make_fake_base(base, seed=1))
    assert register_successor(store, "tiny.v1", hub, actor="sensor") == "tiny.v3"


@pytest.mark.parametrize(
    ("context", "error", "words"),
    [
        (None, BadBase, r"tokenizer\.json is missing"),
        # It reads fewer tokens than the recipe packs.
        (128, BadRecipe, "the base's context length is 128 tokens"),
    ],
)
def test_a_new_base_that_cannot_be_used_registers_nothing(store, base, write_recipe, context, error, words) -> None:
    hub = FakeHub()
    hub.commit(REPO, base)
    register(store, write_recipe(base=f"hub:{REPO}@main", packing={"max_length": 200}), hub)
    if context:
        make_fake_base(base, seed=1, context=context)
    else:
        (base / "tokenizer.json").unlink()
    hub.commit(REPO, base)
    before = contents(store)
    with pytest.raises(error, match=words):
        register_successor(store, "tiny.v1", hub, actor="sensor")
    assert contents(store) == before


def test_one_odd_commit_does_not_keep_other_bases_from_being_looked_at(
    store: Store, hub: FakeHub, base: Path, write_recipe: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: whoever may commit to one base stopped the sensor for all."""
    hub.commit("org/odd", base)
    register(store, write_recipe(key="odd.v1", base="hub:org/odd@main"), hub)
    odd = make_fake_base(base, seed=1)
    config = json.loads((odd / "config.json").read_text())
    config |= {"max_position_embeddings": 10**400, "rope_scaling": {"factor": 1.5}}
    (odd / "config.json").write_text(json.dumps(config))
    hub.commit("org/odd", odd)
    assert context_length((odd / "config.json").read_bytes()) is None
    assert context_length(b"[" * 100_000) is None
    hub.commit(REPO, make_fake_base(base, seed=2))
    asked = hub.snapshot
    monkeypatch.setattr(hub, "snapshot", lambda repo, at: asked(repo, at) if repo == REPO else [][1])
    in_use = tuple(Subscription(dataset="things", recipe=key) for key in ("odd.v1", "tiny.v1"))
    step = start_base_bumps(hub=hub, store=store, tenants=TenantsFile(tenants={"acme": Tenant(subscriptions=in_use)}))
    assert "registered tiny.v2" in step.log[0]
    assert "odd.v1: its base cannot be read (IndexError)" in step.said
