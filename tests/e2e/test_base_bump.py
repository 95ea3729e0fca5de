"""A base that moves twice: after the first move the old weights pass, after the second they fail and are retrained."""

import json
from pathlib import Path

import dagster as dg
import pytest
from safetensors.numpy import load_file, save_file

from ft_assets.api import fine_tune
from ft_assets.control import identity
from ft_assets.control.base_bumps.bump import find_bump
from ft_assets.control.base_bumps.progress import standings
from ft_assets.control.base_bumps.report import rows
from ft_assets.control.lines.releases import find_release
from ft_assets.control.registry.register import register_recipe
from ft_assets.graph.orchestrator import Dagster
from ft_assets.graph.run import drive
from ft_assets.records.submissions import Submission, SubmissionOutcome, SubmissionStatus, open_submissions
from ft_assets.workers.adapters.lineage import lineage, verify_lineage
from ft_assets.workers.base_models.mirror import mirror
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.dagster_resources import HubResource, StoreResource
from ft_sensors.base_bumps import base_bump_sensor
from ft_sensors.base_revisions import base_revision_sensor
from tests.e2e.project import Project, make_project
from tests.fake_base import make_fake_base
from tests.fake_hub import FakeHub
from tests.workers.evals.world import World

pytestmark = pytest.mark.e2e
DATASET = "acme.things.v1"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = make_project(tmp_path / "project")
    tenants = "tenants:\n  acme:\n    subscriptions:\n      - {dataset: things, recipe: tiny.v1}\n"
    (project.folder / "tenants.yaml").write_text(tenants)
    monkeypatch.setenv("FT_TENANTS", str(project.folder / "tenants.yaml"))
    monkeypatch.setenv("FT_TRACKING", "off")
    return project


@pytest.fixture
def hub(project: Project, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    hub = FakeHub()
    hub.commit("org/tiny", project.folder / "base")
    monkeypatch.setattr("ft_resources.dagster_resources.HuggingFaceHub", lambda endpoint: hub)
    return hub


def mirrored(project: Project, hub: FakeHub, recipe: str) -> None:
    """Mirror the recipe's base here, as workers cannot reach a hub in memory."""
    world = World(store=project.store, folder=project.folder / recipe)
    world.folder.mkdir()
    request = identity.base_model_request(world.artifacts, recipe)
    world.publish_result(request, mirror(world.context(request), hub))


def tick(project: Project, instance: dg.DagsterInstance, sensor: dg.SensorDefinition, **more: object) -> None:
    context = dg.build_sensor_context(instance=instance)
    sensor(context, store=StoreResource(url=project.store_url), **more)


def driven(project: Project, instance: dg.DagsterInstance) -> tuple[Submission, SubmissionOutcome]:
    """The next step of the open bump, run to its end."""
    tick(project, instance, base_bump_sensor)
    (asked,) = open_submissions(project.store)
    return asked, drive(project.store, instance, asked)


def test_what_passes_on_a_moved_base_is_carried_and_what_fails_is_retrained(
    project: Project, hub: FakeHub, tmp_path: Path
) -> None:
    instance, artifacts, store = project.instance(), Artifacts(project.store), project.store
    # A random base knows nothing of the rows, so that only weights that fit it reach this gain.
    gates = {"task_gain": {"metric": "perplexity", "min_relative": 0.3}}
    recipe = project.recipe(base="hub:org/tiny@main", steps=30, gates=gates)
    register_recipe(store, recipe, actor="ann", hub=hub)
    mirrored(project, hub, "tiny.v1")
    dataset = project.dataset()
    first = fine_tune(dataset, "tiny.v1", name="acme.things", store=project.store, orchestrator=Dagster(instance))
    assert first.outcome.status is SubmissionStatus.ACCEPTED, first.outcome.reason
    trained = identity.checkpoint(artifacts, DATASET, "tiny.v1")

    # Weights that moved by little: the old adapter passes, and nothing is trained.
    patched = make_fake_base(tmp_path / "patched")
    weights = {name: value * 1.0001 for name, value in load_file(patched / "model.safetensors").items()}
    save_file(weights, patched / "model.safetensors", metadata={"format": "pt"})
    hub.commit("org/tiny", patched)
    tick(project, instance, base_revision_sensor, hub=HubResource())
    mirrored(project, hub, "tiny.v2")
    asked, outcome = driven(project, instance)
    assert asked.mode == "carry"
    assert outcome.status is SubmissionStatus.ACCEPTED, outcome.reason
    carried = identity.checkpoint(artifacts, DATASET, "tiny.v2")
    assert carried.read("final/adapter_model.safetensors") == trained.read("final/adapter_model.safetensors")
    assert carried.manifest.inputs["carried_from"] == trained.ref
    assert attempts_at(store, carried.address) == []
    adapter = artifacts.get(Address.parse(outcome.adapter))
    assert f"Carried from `{trained.address}`" in adapter.read("README.md").decode()
    assert json.loads(adapter.read("lineage.json"))["carried_from"] == str(trained.address)
    base = identity.base_model(artifacts, "tiny.v2")
    assert json.loads(adapter.read("adapter_config.json"))["revision"] == base.facts["revision"]
    assert {str(trained.address), str(base.address)} <= {
        node.address for _, _, node in lineage(artifacts, adapter.address).walk()
    }
    assert verify_lineage(artifacts, adapter.address) == []
    tick(project, instance, base_bump_sensor)
    assert find_release(store, "tiny.v2") is not None

    # Another model altogether: the weights do not pass there, so the pair is trained.
    hub.commit("org/tiny", make_fake_base(tmp_path / "other", seed=7))
    tick(project, instance, base_revision_sensor, hub=HubResource())
    mirrored(project, hub, "tiny.v3")
    asked, outcome = driven(project, instance)
    assert (asked.mode, outcome.status) == ("carry", SubmissionStatus.REJECTED)
    assert "task_gain" in outcome.reason
    rejected = identity.checkpoint(artifacts, DATASET, "tiny.v3")
    assert find_release(store, "tiny.v3") is None
    tick(project, instance, base_bump_sensor)
    (asked,) = open_submissions(store)
    assert asked.mode == "train"
    retrained = identity.checkpoint_request(artifacts, DATASET, "tiny.v3")
    assert retrained.address != rejected.address
    assert "carried_from" not in retrained.inputs
    bump = find_bump(store, "tiny.v3")
    assert bump is not None
    assert [row.step for row in rows(standings(store, bump))] == ["being retrained"]
