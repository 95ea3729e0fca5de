"""A project with a real Dagster instance on SQLite, and a way to tick sensors on it."""

import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.dagster_resources import StoreResource
from ft_sensors import launches
from ft_sensors.submissions import submissions_sensor
from ft_sensors.ticks import IDLE, WORKED, take
from tests.e2e.project import Project, make_project
from tests.fake_hub import FakeHub


@pytest.fixture
def project(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "project" / "tenants.yaml"))
    monkeypatch.setenv("FT_TRACKING", "off")
    # The instance sets it, for all that come after.
    monkeypatch.setenv("FT_STATE", str(tmp_path / "project" / "state"))
    return make_project(tmp_path / "project")


@pytest.fixture(scope="session")
def empty_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The databases of an instance that nothing has happened on; making them anew takes as long as a test."""
    project = make_project(tmp_path_factory.mktemp("empty"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FT_STATE", "")
        project.instance().dispose()
    return project.folder / "state"


@pytest.fixture
def instance(project: Project, empty_state: Path) -> dg.DagsterInstance:
    shutil.copytree(empty_state, project.folder / "state", dirs_exist_ok=True)
    return project.instance()


@pytest.fixture
def hub(project: Project, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    """The Hub, with the project's base as org/tiny."""
    hub = FakeHub()
    hub.commit("org/tiny", project.folder / "base")
    monkeypatch.setattr("ft_resources.dagster_resources.HuggingFaceHub", lambda endpoint: hub)
    return hub


def add_version(project: Project, rows: int = 160) -> str:
    """Add a version of acme.things with this many rows; its key."""
    file = project.dataset(rows)
    added = add_dataset_version(project.store, file, tenant="acme", name="things", policy=DatasetPolicy(), actor="ann")
    return str(added.key)


def register(project: Project, key: str = "tiny.v1", *, hub: FakeHub | None = None, **changes: Any) -> str:
    """Register a recipe of the project, on the hub's base if there is one; its key."""
    base = {"base": "hub:org/tiny@main"} if hub else {}
    return register_recipe(project.store, project.recipe(key, **{**base, **changes}), actor="ann", hub=hub).key


def subscribe(project: Project, *recipes: str, per_day: int = 20) -> None:
    """Write the tenants file: acme subscribes its dataset ``things`` to these recipes."""
    lines = "".join(f"      - {{dataset: things, recipe: {recipe}}}\n" for recipe in recipes)
    text = f"retrainings_per_day: {per_day}\ntenants:\n  acme:\n    subscriptions:\n{lines}"
    (project.folder / "tenants.yaml").write_text(text)


def look(
    project: Project, instance: dg.DagsterInstance, sensor: dg.SensorDefinition, *, cursor: str = "", **more: Any
) -> Any:
    """The result of a tick of the sensor; ``more`` are resources beside the store."""
    context = dg.build_sensor_context(instance=instance, cursor=cursor or None)
    return sensor(context, store=StoreResource(url=project.store_url), **more)


def say(project: Project, instance: dg.DagsterInstance, sensor: dg.SensorDefinition, **more: Any) -> str:
    """What a tick says that it did: beside it, or in its log where it requests runs."""
    shown: list[dg.SkipReason] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launches, "take", lambda *given: shown.append(take(*given)) or shown[-1])
        found = look(project, instance, sensor, **more)
    return sentence(shown[-1] if isinstance(found, dg.SensorResult) else found)


def sentence(found: dg.SkipReason) -> str:
    """The objects that a tick looked at and changed, without whether it worked."""
    return str(found.skip_message).removeprefix(f"{WORKED}: ").removeprefix(f"{IDLE}: ")


def drive(project: Project, instance: dg.DagsterInstance, **more: Any) -> Any:
    """A tick of the submissions' sensor."""
    return look(project, instance, submissions_sensor, **more)


def started(instance: dg.DagsterInstance, found: dg.SensorResult) -> list[dg.DagsterRun]:
    """The runs that a tick asks for, as the daemon launches them; each is tagged with its key."""
    return [
        instance.add_run(
            dg.DagsterRun(
                job_name=str(request.job_name),
                tags={**request.tags, "key": str(request.run_key)},
                status=dg.DagsterRunStatus.STARTED,
            )
        )
        for request in found.run_requests
    ]
