import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ft_assets.control.auto.resolve import resolve, with_written, written_paths
from ft_assets.control.recipes.load import load_recipe
from ft_assets.control.recipes.stored import get_recipe, list_recipes
from ft_assets.control.registry.register import register_locked, register_recipe
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.base_models.lock import lock_folder
from ft_assets.workers.suites.registered import list_suites
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import BadRecipe, CorruptArtifact, StoreUnavailable, UserError
from ft_resources.store import Store
from ft_resources.strict import parse_strict, read_text
from tests.control.registry.conftest import SUITE, contents, refused, register
from tests.fake_base import make_fake_base
from tests.workers.evals.safety_world import write_safety_suite

Write = Callable[..., Path]


def test_a_registered_recipe_is_found_with_its_lock(store: Store, write_recipe: Write, base: Path) -> None:
    path = write_recipe(training={"epochs": 3})
    done = register(store, path)
    stored = get_recipe(store, "tiny.v1")
    assert done.created
    assert list_recipes(store) == ["tiny.v1"]
    assert (stored.digest, stored.lock) == (done.digest, done.lock)
    assert stored.recipe.training.epochs == 3
    assert resolve(stored.recipe)[1]["training.epochs"] == "recipe"
    assert stored.recipe.base == f"folder:sha256:{done.lock.digest}"
    upload = Artifacts(store).get(Address.parse(done.lock.upload or ""))
    assert upload.digest == done.lock.digest
    assert upload.address.tenant == "shared"
    assert upload.read("model.safetensors") == (base / "model.safetensors").read_bytes()
    assert set(upload.manifest.files) == {path.name for path in base.iterdir()}


def test_what_the_base_cannot_do_is_refused_before_anything_is_written(store, write_recipe, base) -> None:
    said = refused(store, write_recipe(lora={"target_modules": ["q_prj"]}))
    assert "llama has no module 'q_prj'; did you mean 'q_proj'?" in said
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "model_type": "mamba2"}))
    assert "state-space layers" in refused(store, write_recipe(packing={"mode": "packed"}))


def test_registering_the_same_again_changes_nothing_and_a_record_that_somebody_edited_is_found_out(
    store, write_recipe
) -> None:
    first = register(store, write_recipe())
    before = contents(store)
    again = register_recipe(store, write_recipe(), actor="bob")
    assert (again.created, again.digest, again.lock) == (False, first.digest, first.lock)
    assert contents(store) == before
    # What is written out as its default is the same recipe.
    assert not register(store, write_recipe(training={"epochs": "auto"})).created
    register(store, write_recipe())
    record = store.get_json("names/recipe/tiny.v1.json")
    record["recipe"]["training"]["epochs"] = 5
    store.put("names/recipe/tiny.v1.json", json.dumps(record).encode())
    with pytest.raises(CorruptArtifact, match="does not match its digest"):
        get_recipe(store, "tiny.v1")


def test_a_recipe_for_one_node_is_the_same_as_before_there_were_nodes(store: Store, write_recipe: Write) -> None:
    first = register(store, write_recipe(hardware={"device": "cpu"}))
    assert "nodes" not in store.get_json("names/recipe/tiny.v1.json")["recipe"]["hardware"]
    again = register(store, write_recipe(hardware={"device": "cpu", "nodes": 1}))
    assert (again.created, again.digest) == (False, first.digest)
    assert "hardware.nodes" in refused(store, write_recipe(hardware={"device": "cpu", "nodes": 2}))


def test_a_recipe_for_two_nodes_is_not_taken_for_one_that_does_not_say(store: Store, write_recipe: Write) -> None:
    register(store, write_recipe(hardware={"nodes": 2}))
    assert get_recipe(store, "tiny.v1").recipe.hardware.nodes == 2
    assert "hardware.nodes" in refused(store, write_recipe(hardware={"nodes": 1}))
    assert "hardware.nodes" in refused(store, write_recipe(hardware={}))


def test_a_default_that_changed_since_makes_no_other_recipe(store: Store, write_recipe: Write, base: Path) -> None:
    """Rank was 16 by default once, and is auto today: who registers the same file again means the same recipe."""
    path = write_recipe(training={"epochs": 3})
    lock = lock_folder(base, "the base", template_given=False)
    today = load_recipe(path).model_copy(update={"base": lock.source})
    spelt = parse_strict(Recipe, {**today.model_dump(mode="json"), "lora": {"rank": 16}}, "an earlier default")
    first = register_locked(store, with_written(spelt, written_paths(today)), lock, actor="ann")
    again = register_recipe(store, path, actor="bob")
    assert (again.created, again.digest) == (False, first.digest)
    assert get_recipe(store, "tiny.v1").recipe.lora.rank == 16
    assert "lora.rank" in refused(store, write_recipe(training={"epochs": 3}, lora={"rank": 4}))


def test_a_key_reused_with_other_content_or_a_changed_base_folder_is_refused_with_the_fields(
    store, write_recipe, base
) -> None:
    register(store, write_recipe())
    text = refused(store, write_recipe(training={"epochs": 2}, packing={"max_length": 64}))
    assert "already registered with other content" in text
    assert "training.epochs, packing.max_length" in text
    assert "use key tiny.v2" in text
    register(store, write_recipe())
    make_fake_base(base, seed=1)
    assert "it differs in base" in refused(store, write_recipe())


def test_a_folder_can_be_named_by_digest_once_it_was_uploaded(store: Store, write_recipe: Write, base: Path) -> None:
    first = register(store, write_recipe())
    shutil.rmtree(base)
    named = write_recipe(key="acme.tiny.v1", base=f"folder:sha256:{first.lock.digest}")
    second = register(store, named)
    assert second.created
    assert second.lock == first.lock


def test_another_tenants_folder_lies_below_it_and_cannot_be_named_by_digest(store: Store, write_recipe: Write) -> None:
    first = register(store, write_recipe(key="acme.tiny.v1"))
    assert (first.lock.upload or "").startswith("acme/base_upload/")
    text = refused(store, write_recipe(key="rival.tiny.v1", base=f"folder:sha256:{first.lock.digest}"))
    assert "no folder with digest" in text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"training": {"learning_rat": 1}}, "training.learning_rat: unknown key; did you mean 'learning_rate'?"),
        ({"evaluation": {"suites": ["tiny-suit.v1"]}}, f"did you mean '{SUITE}'?"),
        ({"base": "folder:sha256:" + "0" * 64}, "this store has no folder with digest"),
        ({"chat_template": "missing.jinja"}, "there is no such file, and no ready template of this name"),
        ({"chat_template": "/proc/self/environ"}, "this file is not in the recipe's folder"),
        ({"chat_template": "../recipe.jinja"}, "this file is not in the recipe's folder"),
        ({"chat_template": "."}, "it is not a regular file"),
    ],
)
def test_a_recipe_that_means_nothing_is_refused(store, write_recipe, changes, expected) -> None:
    text = refused(store, write_recipe(**changes))
    assert expected in text
    assert "recipe.yaml" in text


def test_a_template_is_a_regular_file_beside_the_recipe(store: Store, write_recipe: Write, tmp_path: Path) -> None:
    """The attack: the environment of whoever registers a recipe, with its keys, became a part of the recipe."""
    path = write_recipe(chat_template="leads.jinja")
    leads = path.parent / "leads.jinja"
    leads.symlink_to("/proc/self/environ")
    assert "this file is not in the recipe's folder" in refused(store, path)
    leads.unlink()
    os.mkfifo(leads)
    assert "it is not a regular file" in refused(store, path)
    with pytest.raises(BadRecipe, match="larger than 0 KiB"):
        read_text(Path("/proc/self/environ"), "recipe", most_bytes=16)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, "No such file"),
        (b"", "should be a mapping, not null"),
        (b"key: tiny.v1\nbase: \xff", "line 2: this is not UTF-8 text"),
        (b"x" * 300_000, "larger than 256 KiB"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(store: Store, tmp_path: Path, data: bytes | None, expected: str) -> None:
    if data is not None:
        (tmp_path / "recipe.yaml").write_bytes(data)
    assert expected in refused(store, tmp_path / "recipe.yaml")


def test_suites_that_come_with_the_package_are_there_once_a_recipe_is_measured_on_them(store, write_recipe) -> None:
    done = register(store, write_recipe(evaluation={}, gates={}))
    assert get_recipe(store, done.key).recipe.evaluation.suites == ("book-cloze.v1", "offline-care.v1")
    assert {"book-cloze.v1", "offline-care.v1"} <= set(list_suites(store))


def test_an_unknown_key_comes_with_the_nearest(store, write_recipe) -> None:
    register(store, write_recipe(key="docs-qa.v1"))
    with pytest.raises(UserError, match=r"there is no recipe 'docs-q\.v1'; did you mean 'docs-qa\.v1'\?"):
        get_recipe(store, "docs-q.v1")


@pytest.mark.parametrize(
    ("suites", "gates", "expected"),
    [
        ([SUITE], {"safety": {}}, "gates.safety: safety is required, and evaluation.suites has no safety suite"),
        (["care.v1"], {"safety": {}}, "evaluation.suites: there is no general suite"),
        ([SUITE, "care.v1", "other.v1"], {}, "care.v1, other.v1 are all safety suites, and a recipe may have only one"),
    ],
)
def test_suites_on_which_the_gates_cannot_be_judged_are_refused(
    store: Store, write_recipe: Write, tmp_path: Path, suites: list[str], gates: dict[str, object], expected: str
) -> None:
    for key in ("care.v1", "other.v1"):
        add_suite(store, write_safety_suite(tmp_path / key), key, "ann")
    assert expected in refused(store, write_recipe(evaluation={"suites": suites}, gates=gates))
    register(store, write_recipe(evaluation={"suites": [SUITE, "care.v1"]}, gates={"safety": {}}))


def test_of_two_writers_one_wins_and_the_other_learns_what_differs(store, write_recipe, monkeypatch) -> None:
    written = write_recipe(training={"epochs": 9})
    rival = written.rename(written.with_name("rival.yaml"))
    create = Store.create_json

    def create_late(self: Store, path: str, value: object) -> bool:
        """Another registration comes between our look at the name and our taking it."""
        if path == "names/recipe/tiny.v1.json":
            monkeypatch.setattr(Store, "create_json", create)
            register_recipe(store, rival, actor="bob")
        return create(self, path, value)

    monkeypatch.setattr(Store, "create_json", create_late)
    with pytest.raises(BadRecipe, match=r"differs in training\.epochs"):
        register(store, write_recipe())
    assert get_recipe(store, "tiny.v1").recipe.training.epochs == 9


def test_a_base_that_changes_while_it_is_uploaded_is_not_registered(store, write_recipe, base, monkeypatch) -> None:
    publish = Artifacts.publish

    def publish_late(self: Artifacts, *args: object, **keywords: object) -> object:
        monkeypatch.setattr(Artifacts, "publish", publish)
        make_fake_base(base, seed=5)
        return publish(self, *args, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(Artifacts, "publish", publish_late)
    with pytest.raises(UserError, match="changed while they were uploaded"):
        register(store, write_recipe())
    assert list_recipes(store) == []
    # Nothing wrong stays at the address of the good content.
    make_fake_base(base)
    done = register(store, write_recipe())
    assert Artifacts(store).get(Address.parse(done.lock.upload or "")).digest == done.lock.digest


def test_a_store_that_refuses_leaves_no_recipe(store, write_recipe, monkeypatch) -> None:
    def full(self: Store, source: Path, path: str) -> None:
        raise StoreUnavailable("the store refused to write (no space left)", where=path, remedy="Free some.")

    monkeypatch.setattr(Store, "upload", full)
    refused(store, write_recipe(), StoreUnavailable)
