"""What a recipe's base allows: its template, its context, and which commit of the Hub it is."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ft_assets.control import identity
from ft_assets.control.auto.resolve import resolve
from ft_assets.control.recipes.stored import StoredRecipe, get_recipe
from ft_assets.workers.base_models.context import context_length
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadBase
from ft_resources.store import Store
from tests.control.registry.conftest import SUITE, contents, refused, register
from tests.fake_base import CHAT_TEMPLATE, make_fake_base
from tests.fake_hub import FakeHub
from tests.made import leave
from tests.workers.evals.safety_world import write_safety_suite

Write = Callable[..., Path]
BEFORE = "original_max_position_embeddings"


def test_a_missing_base_folder_or_an_unknown_hub_model_leaves_the_store_as_it_was(store, write_recipe) -> None:
    assert "there is no folder" in refused(store, write_recipe(base="folder:./bse"), BadBase)
    before = contents(store)
    with pytest.raises(BadBase, match="no such model"):
        register(store, write_recipe(base="hub:org/none@main"), FakeHub())
    assert contents(store) == before


def test_a_base_without_a_template_needs_a_recipe_that_names_one(store, write_recipe, tmp_path) -> None:
    make_fake_base(tmp_path / "base", with_template=False)
    assert "no chat template and the recipe names none" in refused(store, write_recipe(), BadBase)
    (tmp_path / "mine.jinja").write_text(CHAT_TEMPLATE)
    done = register(store, write_recipe(chat_template="mine.jinja"))
    assert get_recipe(store, "tiny.v1").recipe.chat_template == CHAT_TEMPLATE
    # The same holds where the folder is only named by its digest.
    text = refused(store, write_recipe(key="other.v1", base=f"folder:sha256:{done.lock.digest}"))
    assert "no chat template and the recipe names none" in text


def test_texts_are_learned_without_a_template_unless_a_suite_asks_by_one(store, write_recipe, tmp_path) -> None:
    make_fake_base(tmp_path / "base", with_template=False)
    cpt = {"method": "cpt", "packing": {"overlong": "split"}, "gates": {"task_gain": {"metric": "perplexity"}}}
    add_suite(store, write_safety_suite(tmp_path / "care"), "care.v1", "ann")
    asking = write_recipe(**cpt, evaluation={"suites": [SUITE, "care.v1"]})
    assert "no chat template and the recipe names none" in refused(store, asking, BadBase)
    done = register(store, write_recipe(**cpt))
    register(store, write_recipe(key="again.v1", base=f"folder:sha256:{done.lock.digest}", **cpt))


def test_a_window_beyond_the_bases_context_is_refused_with_both_numbers(store: Store, write_recipe: Write) -> None:
    text = refused(store, write_recipe(packing={"max_length": 257}))
    assert "packing.max_length is 257, but the base's context length is 256 tokens" in text
    assert "recipe.yaml, packing.max_length" in text
    assert "packing: {max_length: 256}" in text
    done = register(store, write_recipe(packing={"max_length": 256}))
    named = f"folder:sha256:{done.lock.digest}"
    assert "257" in refused(store, write_recipe(key="other.v1", base=named, packing={"max_length": 257}))


def test_a_window_that_nobody_wrote_fits_the_base(store: Store, write_recipe: Write) -> None:
    register(store, write_recipe())
    stored = get_recipe(store, "tiny.v1").recipe
    assert stored.packing.max_length == 256
    assert resolve(stored)[1]["packing.max_length"] == "auto: the context length of the base"
    assert not register(store, write_recipe()).created


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"n_positions": 1024}, 1024),
        ({"text_config": {"max_position_embeddings": 512}}, 512),
        ({"max_position_embeddings": 2048, "rope_scaling": {"type": "linear", "factor": 4.0}}, 8192),
        ({"max_position_embeddings": 131072, "rope_scaling": {"factor": 8.0, BEFORE: 8192}}, 131072),
        ({"max_position_embeddings": True}, None),
        ({"model_type": "mamba"}, None),
        ([], None),
    ],
)
def test_the_context_is_read_from_the_bases_config(config: object, expected: int | None) -> None:
    assert context_length(json.dumps(config).encode()) == expected


def test_a_template_with_a_mistake_is_refused_with_its_line(store: Store, write_recipe: Write, tmp_path: Path) -> None:
    (tmp_path / "mine.jinja").write_text("{% for m in messages %}\n{{ m.content\n{% endfor %}")
    text = refused(store, write_recipe(chat_template="mine.jinja"), BadBase)
    assert "mine.jinja" in text
    assert "line 3" in text


def from_hub(store: Store, path: Path, hub: FakeHub) -> StoredRecipe:
    return get_recipe(store, register(store, path, hub).key)


def test_a_moved_revision_never_changes_what_a_recipe_means(store: Store, write_recipe: Write, base: Path) -> None:
    hub = FakeHub()
    first_commit = hub.commit("org/tiny", base)
    path = write_recipe(base="hub:org/tiny@main")
    first = from_hub(store, path, hub)
    assert first.lock.revision == first_commit
    assert "model.safetensors" not in hub.downloads
    second_commit = hub.commit("org/tiny", make_fake_base(base, seed=1))
    assert second_commit != first_commit
    assert from_hub(store, path, hub) == first
    following = from_hub(store, write_recipe(key="tiny.v2", base="hub:org/tiny@main"), hub)
    assert following.lock.revision == second_commit
    assert following.lock.digest != first.lock.digest


def test_a_tenants_own_image_does_not_run_as_what_all_tenants_share(store, write_recipe, base) -> None:
    hub, artifacts, image = FakeHub(), Artifacts(store), f"registry.example/own@sha256:{'a' * 64}"
    hub.commit("org/base", base)
    images = {}
    for key in ("tiny.v1", "acme.tiny.v1"):
        own = write_recipe(key=key, base="hub:org/base@main", hardware={"image": image})
        register(store, own, hub)
        mirrored = identity.base_model_request(artifacts, key)
        if artifacts.find(mirrored.address) is None:
            leave(artifacts, mirrored, base)
        asked = identity.baseline_report_request(artifacts, key)
        assert asked.tenant == "shared"
        images[key] = asked.resources.image
    assert images == {"tiny.v1": image, "acme.tiny.v1": None}
