"""The control plane's image has what its processes import: they run here with nothing but what its lock names."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from ft_assets.api import near_rows
from ft_assets.records.submissions import SubmissionStatus, all_submissions, find_outcome
from ft_resources.errors import UserError
from tests.e2e.project import ROOT, make_project
from tests.k8s.chart import K8S
from tests.k8s.locked import LOCKED
from tests.warm_workers import environment
from tests.warm_workers.fixture import warm as warm
from tools.architecture import Sources
from tools.sbom import locked

COMMANDS = """
import json, sys
from ft_assets.cli.main import app
for words in json.loads(sys.argv[1]):
    if code := app(words, standalone_mode=False):
        sys.exit(code)
    print("-- end --", end="", flush=True)
"""
LOCK = K8S / "locks" / "control.txt"
CONTROL = ("api", "cli", "control", "definitions", "graph", "records", "remote", "server", "settings")
# What only an installation with workers can do, and says so.
BESIDE_WORKERS = {
    "ft_assets.api.parity": {"torch", "transformers"},
    # Where there is a compiler.
    "ft_assets.control.registry.rows_apart": {"numba"},
}


def run(*words: str, cwd: Path = ROOT, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env={**os.environ, **LOCKED, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.subprocess
def test_every_library_that_a_module_of_the_control_plane_loads_is_locked_for_it() -> None:
    sources, lock = Sources(), set(locked(LOCK.parent, LOCK.name))
    installed = packages_distributions()

    def lacking(module: str) -> set[str]:
        """Libraries of other packages than the locked that loading ``module`` needs."""
        found = sources.libraries_of(module) & installed.keys()
        return {each for each in found if not {_named(name) for name in installed[each]} & lock}

    ours = [
        module
        for module in sources.modules
        if module.startswith(("ft_resources", "ft_sensors", *(f"ft_assets.{name}" for name in CONTROL)))
    ]
    inside = {
        module: {
            library
            for each in sources.imports[module]
            if each.in_function and not each.for_types and each.target in sources.modules
            for library in lacking(each.target)
        }
        for module in ours
    }
    assert {module: lacking(module) for module in ours if lacking(module)} == {}
    assert {module: libraries for module, libraries in inside.items() if libraries} == BESIDE_WORKERS


def _named(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


@pytest.mark.subprocess
def test_code_location_server_daemon_and_run_pods_load_with_the_locked_packages() -> None:
    run("-m", "ft_assets.warm", "control")
    find = "import importlib.util as u; print([u.find_spec(name) for name in ('torch', 'numba', 'scipy')])"
    assert run("-c", find) == "[None, None, None]\n"


def test_rows_near_a_text_need_the_packages_of_curation_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ft_assets.api.datasets.COMPILES", False)
    with pytest.raises(UserError, match="packages for curation are not installed"):
        near_rows("acme.things.v1", "a text")


@pytest.mark.e2e
@pytest.mark.usefixtures("warm")
def test_a_fine_tune_is_asked_for_estimated_and_followed_to_its_adapter(tmp_path: Path) -> None:
    """All commands and all steps of all runs are in one process, and only workers are others."""
    project = make_project(tmp_path / "project")
    at = {name: value for name, value in project.environment.items() if name.startswith(("FT_", "DAGSTER_"))}
    pair = ("acme.things.v1", "tiny.v1")
    commands = [
        ("dataset", "add", str(project.dataset()), "--name", "acme.things"),
        ("recipe", "add", str(project.recipe())),
        ("estimate", *pair),
        ("run", *pair),
        ("status",),
        ("dataset", "diff", pair[0], pair[0]),
    ]
    workers = {"PYTHONPATH_OF_WORKERS": environment()["PYTHONPATH"]}
    told = run("-c", COMMANDS, json.dumps(commands), cwd=project.folder, **at, **workers).split("-- end --")
    (submission,) = all_submissions(project.store, "acme")
    outcome = find_outcome(project.store, submission)
    assert outcome is not None
    assert outcome.status is SubmissionStatus.ACCEPTED, outcome.reason
    assert "acme.things" in told[commands.index(("status",))]
