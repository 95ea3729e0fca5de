"""``ft status`` of a submission shows the exports of its adapter."""

import json
from collections.abc import Callable

import pytest

from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.records.submissions import open_submissions
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.artifacts import Artifact
from tests.cli.conftest import DATASET, RECIPE, Ft
from tests.e2e.project import Project

pytestmark = pytest.mark.dagster


@pytest.fixture
def pair(project: Project) -> tuple[str, str]:
    """A pair whose recipe asks for an export."""
    add_dataset_version(
        project.store, project.dataset(), tenant="acme", name="colours", policy=DatasetPolicy(), actor="ann"
    )
    register_recipe(project.store, project.recipe(RECIPE, exports=["merged"]), actor="ann")
    return DATASET, RECIPE


def test_status_shows_how_exports_stand_once_there_is_an_adapter(
    project: Project, ft: Ft, pair: tuple[str, str], made_later: Callable[[], dict[str, Artifact]]
) -> None:
    assert ft("submit", *pair).exit_code == 0
    (asked,) = open_submissions(project.store)
    assert "merged" not in ft("status", asked.id).stdout
    assert "exports" not in json.loads(ft("status", asked.id, "--json").stdout)[0]
    made_later()
    shown = " ".join(ft("status", asked.id).stdout.split())
    # What this store has for an adapter has no files of PEFT's.
    assert "export state now is" in shown
    assert "merged failed" in shown
    (found,) = json.loads(ft("status", asked.id, "--json").stdout)
    ((name, state, why),) = [(each["format"], each["state"], each["detail"]) for each in found["exports"]]
    assert (name, state) == ("merged", "failed")
    assert "already a complete model" in why
