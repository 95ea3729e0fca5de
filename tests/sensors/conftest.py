"""A project with a real Dagster instance on SQLite, and a way to tick sensors on it."""

import dagster as dg
import pytest

from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.settings.dataset.policy import DatasetPolicy
from tests.e2e.project import Project, make_project


@pytest.fixture
def project(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "project" / "tenants.yaml"))
    return make_project(tmp_path / "project")


@pytest.fixture
def instance(project: Project) -> dg.DagsterInstance:
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
