import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.keys import DatasetKey, RecipeKey, check_pair, check_suite_key, line_of
from ft_resources.errors import UserError

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


def test_a_line_has_no_versions() -> None:
    assert line_of(DatasetKey.parse("acme.support.v7"), RecipeKey.parse("tiny.v3")) == "acme.support.tiny"


def test_suite_keys_have_two_parts() -> None:
    assert check_suite_key("book-cloze.v1") == "book-cloze.v1"
    with pytest.raises(UserError, match="suite key"):
        check_suite_key("book_cloze")
