import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.registry.adding import parse_name
from ft_assets.control.registry.register import register_read
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.records import jobs, names
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.environment import caller_tenant
from ft_assets.settings.keys import ROOT_FOLDERS, DatasetKey, RecipeKey, check_pair, check_suite_key, line_of
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.tenants import load_tenants
from ft_resources.errors import UserError
from ft_resources.store_marker import open_store

part = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", fullmatch=True)


@given(part.filter(lambda text: text != "shared"), part, st.integers(1, 9_999_999))
def test_keys_survive_printing_and_parsing(tenant: str, name: str, version: int) -> None:
    dataset = DatasetKey(tenant=tenant, name=name, version=version)
    assert DatasetKey.parse(str(dataset)) == dataset
    for recipe in (
        RecipeKey(tenant=tenant, name=name, version=version),
        RecipeKey(tenant="", name=name, version=version),
    ):
        assert RecipeKey.parse(str(recipe)) == recipe


@pytest.mark.parametrize(
    "text",
    [
        "acme.support|x.v1",
        "acme.support,x.v1",
        "acme.support...v1",
        "acme.support.v1\n",
        "acme.support.v0",
        "acme.support.v01",
        "acme.support",
        "Acme.support.v1",
        "acme.sup port.v1",
        "acme.-x.v1",
        "acme." + "x" * 41 + ".v1",
        "acme..v1",
        "../etc.x.v1",
        "",
    ],
)
def test_keys_that_would_break_later_are_refused_with_the_form_to_use(text: str) -> None:
    with pytest.raises(UserError, match="What to do"):
        DatasetKey.parse(text)


def test_a_recipe_of_another_tenant_is_a_senseless_pair() -> None:
    dataset = DatasetKey.parse("acme.support.v1")
    check_pair(dataset, RecipeKey.parse("tiny.v1"))
    check_pair(dataset, RecipeKey.parse("acme.tiny.v1"))
    with pytest.raises(UserError, match="belongs to tenant 'globex'"):
        check_pair(dataset, RecipeKey.parse("globex.tiny.v1"))


def test_a_shared_dataset_may_be_named_but_no_adapter_made_of_it() -> None:
    dataset = DatasetKey.parse("shared.general.v1")
    assert (dataset.tenant, str(dataset)) == ("shared", "shared.general.v1")
    with pytest.raises(UserError, match=r"an adapter belongs to one tenant, and dataset shared\.general\.v1 is shared"):
        check_pair(dataset, RecipeKey.parse("tiny.v1"))


def test_shared_is_no_tenant_of_recipes() -> None:
    with pytest.raises(UserError, match="'shared' is not a tenant"):
        RecipeKey.parse("shared.tiny.v1")


def test_no_tenant_has_the_name_of_a_folder_of_the_stores_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: `ft dataset add names.x` wrote among all tenants' names, and its role could write every one."""
    store = open_store(str(tmp_path / "store"), create=True)
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n')
    recipe = Recipe(key="names.tiny.v1", base="hub:org/model@main")
    (tmp_path / "tenants.yaml").write_text("tenants: {names: {}}\n")
    monkeypatch.setenv("FT_TENANT", "retiring")
    doors = [
        lambda: add_dataset_version(
            store, tmp_path / "rows.jsonl", tenant="names", name="x", policy=DatasetPolicy(), actor="ann"
        ),
        lambda: parse_name("retrainings.x"),
        lambda: register_read(store, recipe, "recipe.yaml", actor="ann", beside=tmp_path),
        lambda: load_tenants(tmp_path / "tenants.yaml"),
        caller_tenant,
    ]
    for door in doors:
        with pytest.raises(UserError, match="the store keeps records of all tenants in a folder of that name"):
            door()
    assert not store.root_folders()
    # A key of such a tenant in a store from before is read as it was.
    assert DatasetKey.parse("retiring.x.v1").tenant == "retiring"


def test_every_folder_of_the_stores_own_is_reserved() -> None:
    layout = f"{names.__doc__}\n{jobs.__doc__}"
    found = {folder for folder in re.findall(r"^ *([a-z_]+)/", layout, re.MULTILINE) if folder != "shared"}
    assert found == ROOT_FOLDERS


def test_a_line_has_no_versions() -> None:
    assert line_of(DatasetKey.parse("acme.support.v7"), RecipeKey.parse("tiny.v3")) == "acme.support.tiny"


def test_suite_keys_have_two_parts() -> None:
    assert check_suite_key("book-cloze.v1") == "book-cloze.v1"
    with pytest.raises(UserError, match="suite key"):
        check_suite_key("book_cloze")
