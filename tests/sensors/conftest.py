"""A project with a real Dagster instance on SQLite, and a way to tick sensors on it."""

import shutil
from pathlib import Path

import dagster as dg
import pytest

from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.settings.dataset.policy import DatasetPolicy
from tests.e2e.project import Project, make_project


@pytest.fixture
def project(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "project" / "tenants.yaml"))
    return make_project(tmp_path / "project")


@pytest.fixture(scope="session")
def empty_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The databases of an instance that nothing has happened on; making them anew takes as long as a test."""
    project = make_project(tmp_path_factory.mktemp("empty"))
    project.instance().dispose()
    return project.folder / "state"


@pytest.fixture
def instance(project: Project, empty_state: Path) -> dg.DagsterInstance:
    shutil.copytree(empty_state, project.folder / "state", dirs_exist_ok=True)
    return project.instance()


def add_version(project: Project, rows: int = 160) -> str:
    """Add a version of acme.things with this many rows; its key."""
    file = project.dataset(rows)
    added = add_dataset_version(project.store, file, tenant="acme", name="things", policy=DatasetPolicy(), actor="ann")
    return str(added.key)


def subscribe(project: Project, *recipes: str, per_day: int = 20) -> None:
    """Write the tenants file: acme subscribes its dataset ``things`` to these recipes."""
    lines = "".join(f"      - {{dataset: things, recipe: {recipe}}}\n" for recipe in recipes)
    text = f"retrainings_per_day: {per_day}\ntenants:\n  acme:\n    subscriptions:\n{lines}"
    (project.folder / "tenants.yaml").write_text(text)
