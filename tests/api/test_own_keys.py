"""Keys without a tenant: of the caller's tenant, and never of another."""

from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.api.own_keys import own_dataset, own_line, own_name, own_pair, own_recipe
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.cli.conftest import DATASET, RECIPE, Ft
from tests.e2e.project import Project
from tests.made import add_recipe


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Both readings of ``both.v1`` exist; ``own.v1`` and ``theirs.v1`` only as a tenant's, ``all.v1`` only shared."""
    store = open_store(str(tmp_path / "store"), create=True)
    for key in ("both.v1", "acme.both.v1", "acme.own.v1", "globex.theirs.v1", "all.v1"):
        add_recipe(store, key)
    monkeypatch.setenv("FT_TENANT", "acme")
    return store


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("both.v1", "both.v1"),
        ("acme.both.v1", "acme.both.v1"),
        ("own.v1", "acme.own.v1"),
        ("all.v1", "all.v1"),
        # Another tenant's is not found, and nothing tells that it is there.
        ("theirs.v1", "theirs.v1"),
        ("globex.theirs.v1", "globex.theirs.v1"),
        ("no key", "no key"),
        ("", ""),
    ],
)
def test_a_recipe_that_exists_as_written_comes_before_the_callers_own(store: Store, written: str, read: str) -> None:
    assert own_recipe(store, written) == read


def test_datasets_lines_and_names_without_a_tenant_are_the_callers(store: Store) -> None:
    assert [own_dataset(text) for text in ("support.v1", "globex.support.v1", "rows.jsonl", "a/b.csv")] == [
        "acme.support.v1",
        "globex.support.v1",
        "rows.jsonl",
        "a/b.csv",
    ]
    assert [own_line(text) for text in ("support.own", "globex.support.own")] == [
        "acme.support.own",
        "globex.support.own",
    ]
    assert [own_name(text) for text in ("support", "globex.support", "")] == ["acme.support", "globex.support", ""]
    assert own_pair(store, "support.v1|own.v1") == "acme.support.v1|acme.own.v1"


def test_without_a_tenant_of_the_caller_every_key_is_read_as_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FT_TENANT")
    assert (own_recipe(store, "own.v1"), own_dataset("support.v1"), own_line("a.b"), own_name("a")) == (
        "own.v1",
        "support.v1",
        "a.b",
        "a",
    )


def test_a_tenant_that_is_no_name_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_TENANT", "../globex")
    with pytest.raises(UserError, match="tenant in FT_TENANT"):
        own_dataset("support.v1")


def test_the_doors_take_the_callers_keys(
    project: Project, ft: Ft, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_TENANT", "acme")
    api.register_recipe(project.recipe("acme.helpdesk.v1"), orchestrator=NobodyLooks())
    asked = api.submit("colours.v1", "helpdesk.v1").submission
    assert asked.pair == f"{DATASET}|acme.helpdesk.v1"
    assert api.submit("colours.v1", RECIPE).submission.pair == f"{DATASET}|{RECIPE}"
    assert api.get_recipe("helpdesk.v1").recipe.key == "acme.helpdesk.v1"
    assert ft("submit", "colours.v1", "helpdesk.v1").stdout.strip() == asked.id
    assert "acme.helpdesk.v1" in ft("recipe", "retire", "helpdesk.v1", "--note", "old").stdout
    # As another tenant the same words are not that recipe, and the sentence is that of any unknown key.
    monkeypatch.setenv("FT_TENANT", "globex")
    with pytest.raises(UserError, match=r"there is no recipe 'helpdesk\.v1'"):
        api.get_recipe("helpdesk.v1")


class NobodyLooks:
    """An orchestrator that shows nothing."""

    def show_keys(self, **_: str) -> None: ...
