"""What keeps results out of production is listed at registration, and a promotion is refused by the same."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets import api
from ft_assets.control.lines.promotion import promote
from ft_assets.control.lines.walls import Asked, base_walls, walls_of_recipe
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.tenants import Tenant, TenantsFile
from ft_resources.errors import UserError
from ft_resources.signatures import TRUSTED_KEYS
from ft_resources.store import Store
from tests.control.lines.promotable import SERVED, Promotable, add_recipe, decided
from tests.e2e.project import make_project
from tests.signing_keys import make_pair

STRICT = SERVED.model_copy(update={"production_safety": SafetyGate(min_refusals=0.99)})
ASKED = {"gates": {"safety": {}}}


@pytest.mark.parametrize(
    ("gates", "tenants", "words"),
    [
        ({"safety": None}, SERVED, "production needs a passed safety gate, and the recipe asks for none"),
        ({"safety": {}}, STRICT, "min_refusals 0.95, where 0.99 is the loosest"),
        ({"safety": {}}, TenantsFile(), "is not on the servers"),
    ],
)
def test_a_wall_that_a_registration_lists_is_the_one_that_a_promotion_runs_into(
    line: Promotable, gates: dict[str, Any], tenants: TenantsFile, words: str
) -> None:
    artifacts = line.world.artifacts
    add_recipe(artifacts.store, "other.v1", gates=gates)
    (listed,) = walls_of_recipe(artifacts, tenants, get_recipe(artifacts.store, "other.v1"))
    assert words in listed
    adapter = line.adapter(recipe="other.v1", gates=gates)
    with pytest.raises(UserError, match=words):
        promote(artifacts, str(adapter.address), "production", decided(tenants=tenants))


def test_a_promotion_names_all_that_stands_in_its_way_at_once(
    line: Promotable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = line.world.artifacts
    monkeypatch.setenv(TRUSTED_KEYS, str(make_pair(tmp_path, "trusted")[1]))
    add_recipe(artifacts.store, "other.v1", gates={"safety": None})
    add_recipe(artifacts.store, "other.v2", gates={"safety": None})
    artifacts.store.create_json("names/successor/other.v1/abc.json", {"successor": "other.v2"})
    words = ("asks for none", "is not on the servers", "the base of other.v2 is held", "signature of a trusted key")
    listed = walls_of_recipe(artifacts, TenantsFile(), get_recipe(artifacts.store, "other.v2"))
    assert [word in wall for word, wall in zip(words, listed, strict=True)] == [True] * 4
    adapter = line.adapter(recipe="other.v2", gates={"safety": None}, verdicts=[])
    with pytest.raises(UserError, match="5 things stand in its way") as caught:
        promote(artifacts, str(adapter.address), "production", decided(tenants=TenantsFile()))
    for word in (*words, "not every gate accepted it"):
        assert word in caught.value.what


def test_what_waits_for_people_is_listed_beside_what_refuses(line: Promotable) -> None:
    add_recipe(line.world.store, "asked.v1", **ASKED)
    both = SERVED.model_copy(update={"production_second_person": True, "production_parity": True})
    listed = walls_of_recipe(line.world.artifacts, both, get_recipe(line.world.store, "asked.v1"))
    assert [each.partition(" ")[0] for each in listed] == ["Its", "A"]
    assert walls_of_recipe(line.world.artifacts, SERVED, get_recipe(line.world.store, "asked.v1")) == ()


@pytest.mark.parametrize(
    ("source", "revision"),
    [
        ("hub:org/model", "c" * 40),
        (f"folder:sha256:{'a' * 64}", "a" * 64),
        (f"artifact:acme/adapter/{'b' * 64}", "b" * 64),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_the_remedy_for_a_base_that_is_not_served_can_be_pasted(
    store: Store, source: str, revision: str, own: bool
) -> None:
    asked = Asked(tenant="acme", recipe="tiny.v1", gates="none", source=source, revision=revision)
    add_recipe(store, "tiny.v1")
    before = ("hub:org/other",)
    tenants = TenantsFile(served_bases=before, tenants={"acme": Tenant(served_bases=before)} if own else {})
    (wall,) = base_walls(store, tenants, asked)
    pasted = yaml.safe_load(wall.remedy.partition("write in tenants.yaml: ")[2])
    assert wall.where == ("tenants.yaml: tenants.acme.served_bases" if own else "tenants.yaml: served_bases")
    file = {"tenants": {"acme": pasted}} if own else pasted
    assert list(base_walls(store, TenantsFile.model_validate_json(json.dumps(file)), asked)) == []
    assert pasted["served_bases"][0] == before[0]


def test_registering_and_submitting_list_the_walls(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    added = api.add_dataset(project.dataset(), "acme.colours", store=project.store)
    assert any("No safety suite is registered but" in wall for wall in added.walls)
    assert any("Its holdout of" in wall for wall in added.walls)
    file = project.recipe("plain.v1", gates="none")
    registered = api.register_recipe(file, store=project.store, tenants=TenantsFile())
    asked = api.submit(str(added.key), registered.key, store=project.store, tenants=TenantsFile())
    for walls in (registered.walls, asked.walls):
        assert "the recipe has no gates" in walls[0]
        assert ["safety gate" in walls[1], "is not on the servers" in walls[2]] == [True, True]


def test_a_folder_of_settings_is_planned_with_the_walls_of_its_recipes(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    recipe = project.recipe("plain.v1", gates="none")
    folder = recipe.parent / "desired"
    (folder / "recipes").mkdir(parents=True)
    (folder / "tenants.yaml").write_text("{}")
    content = yaml.safe_load(recipe.read_text())
    content["base"] = f"folder:{project.folder / 'base'}"
    (folder / "recipes" / "plain.yaml").write_text(yaml.safe_dump(content))
    (step,) = api.plan_folder(folder, store=project.store)
    assert step.what == "recipe plain.v1"
    assert step.details[0].startswith("production: the recipe has no gates")
