"""A project in a temporary folder, the command line over it, and a store filled with results that nobody computed."""

import atexit
import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from typer.testing import CliRunner, Result

from ft_assets.cli.main import app
from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.canonical import canonical_json
from ft_resources.work import WorkRequest
from tests.e2e.project import Project, make_project
from tests.made import leave
from tests.warm_workers import PLACE, environment

DATASET, RECIPE, LINE = "acme.colours.v1", "tiny.v1", "acme.colours.tiny"
Ft = Callable[..., Result]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    folder = tmp_path / "project"
    shutil.copytree(_made_project(), folder)
    project = Project(folder=folder, store_url=f"file://{folder}/store")
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("DAGSTER_HOME", str(project.folder))
    monkeypatch.setenv("FT_STATE", str(project.folder / "state"))
    monkeypatch.setenv("FT_STORE", project.store_url)
    monkeypatch.setenv("FT_CACHE", str(project.folder / "cache"))
    monkeypatch.setenv("FT_TENANTS", str(project.folder / "tenants.yaml"))
    monkeypatch.setenv("FT_TRACKING", "off")
    return project


@functools.cache
def _made_project() -> Path:
    """A project of which each test gets a copy."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return make_project(folder / "project").folder


@pytest.fixture
def forked(warm_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are forks of a process that has the libraries."""
    monkeypatch.setenv(PLACE, warm_server)
    for name, value in environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> dg.DagsterInstance:
    """What the commands take for the instance of DAGSTER_HOME: a real one, in memory."""
    instance = dg.DagsterInstance.ephemeral()
    monkeypatch.setattr(dg.DagsterInstance, "get", lambda: instance)
    return instance


@pytest.fixture
def ft(project: Project, instance: dg.DagsterInstance) -> Ft:
    """Calls ``ft`` with arguments; the result has ``exit_code``, ``stdout`` and ``stderr``."""

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call


@pytest.fixture
def pair(project: Project) -> tuple[str, str]:
    """A dataset version and a recipe that were added, unknown to Dagster."""
    add_dataset_version(
        project.store, project.dataset(), tenant="acme", name="colours", policy=DatasetPolicy(), actor="ann"
    )
    register_recipe(project.store, project.recipe(RECIPE), actor="ann")
    return DATASET, RECIPE


FACTS: dict[str, dict[str, Any]] = {
    "dataset": {"form": "chat", "held": [], "dropped": {}, "rows": {"train": 128, "validation": 16, "holdout": 16}},
    "base_model": {"tokenizer_digest": "00", "template_digest": "11"},
    "token_pack": {"tokens": 4000, "windows": 40},
    "checkpoint": {"tokens": 2000, "seconds": 4.0, "tokens_per_s": 500.0, "steps": 8},
    "adapter": {"line": LINE, "metrics": {"exact_match": {"base": 0.1, "candidate": 0.8}}},
}


def publish(artifacts: Artifacts, request: WorkRequest) -> Artifact:
    """Publish an artifact for ``request`` with a file or two that nobody computed."""
    files = {
        "result.json": canonical_json({"asset": request.asset}),
        "final/weights.bin": b"\x00" * 100,
        "config.json": b"{}",
        "README.md": f"# {request.asset} of {request.label}\n".encode(),
    }
    return leave(artifacts, request, files, FACTS.get(request.asset))


@pytest.fixture
def made_later(project: Project, pair: tuple[str, str]) -> Callable[[], dict[str, Artifact]]:
    """Call it, and every artifact of the pair is there, by asset."""

    def make() -> dict[str, Artifact]:
        artifacts, (dataset, recipe) = Artifacts(project.store), pair
        found = {"raw_dataset": identity.raw_dataset(artifacts, dataset)}
        requests: dict[str, Callable[[], WorkRequest]] = {
            "dataset": lambda: identity.dataset_request(artifacts, dataset),
            "base_model": lambda: identity.base_model_request(artifacts, recipe),
            "baseline_report": lambda: identity.baseline_report_request(artifacts, recipe),
            "token_pack": lambda: identity.token_pack_request(artifacts, dataset, recipe),
            "checkpoint": lambda: identity.checkpoint_request(artifacts, dataset, recipe),
            "eval_report": lambda: identity.eval_report_request(artifacts, dataset, recipe),
            "adapter": lambda: identity.adapter_request(artifacts, dataset, recipe),
        }
        for asset, request in requests.items():
            found[asset] = publish(artifacts, request())
        return found

    return make


@pytest.fixture
def made(made_later: Callable[[], dict[str, Artifact]]) -> dict[str, Artifact]:
    """Every artifact of the pair, by asset."""
    return made_later()
