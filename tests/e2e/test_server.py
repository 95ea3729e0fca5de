"""The UI's way: one action records a submission, the daemon's sensor does the rest; cancel stops the work."""

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.records.submissions import SubmissionStatus, all_submissions, find_outcome
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.errors import MissingInput
from tests.e2e.dagster_server import DagsterServer, dagster_server, wait_for
from tests.e2e.project import LONG, Project, make_project

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("served"))
    add_dataset_version(
        project.store, project.dataset(), tenant="acme", name="things", policy=DatasetPolicy(), actor="ann"
    )
    return project


@pytest.fixture(scope="module")
def server(project: Project) -> Iterator[DagsterServer]:
    with dagster_server(project) as server:
        yield server


def ask(server: DagsterServer, recipe: str) -> None:
    config = {"dataset": "acme.things.v1", "recipe": recipe}
    server.launch("fine_tune", {"ops": {"record_submission": {"config": config}}})


def outcome_of(project: Project, recipe: str):
    submissions = [s for s in all_submissions(project.store, "acme") if s.recipe == recipe]
    return find_outcome(project.store, submissions[0]) if submissions else None


def training_attempt(project: Project, recipe: str) -> Attempt | None:
    """The attempt that is training now, with at least one step done."""
    try:
        request = identity.checkpoint_request(Artifacts(project.store), "acme.things.v1", recipe)
    except MissingInput:
        return None
    attempts = attempts_at(project.store, request.address)
    if attempts and attempts[-1].steps() and attempts[-1].ending() is None:
        return attempts[-1]
    return None


def train_run(server: DagsterServer, recipe: str) -> str:
    for run in server.runs():
        tags = {tag["key"]: tag["value"] for tag in run["tags"]}
        if run["jobName"] == "train_pair" and tags.get("dagster/partition/recipe") == recipe:
            return str(run["runId"])
    raise AssertionError("no run for the pair")


def test_one_action_in_the_ui_ends_in_an_adapter(project: Project, server: DagsterServer) -> None:
    register_recipe(project.store, project.recipe("tiny.v1"), actor="ann")
    ask(server, "tiny.v1")
    outcome = wait_for(lambda: outcome_of(project, "tiny.v1"), 180, "the end of the submission")
    assert outcome.status is SubmissionStatus.ACCEPTED, outcome.reason


def test_cancel_in_the_ui_stops_the_work(project: Project, server: DagsterServer) -> None:
    register_recipe(project.store, project.recipe("long.v1", steps=100_000), actor="ann")
    ask(server, "long.v1")
    attempt = wait_for(lambda: training_attempt(project, "long.v1"), 120, "the training")
    pid = attempt.launch()["pid"]
    server.terminate(train_run(server, "long.v1"))
    wait_for(lambda: not psutil.pid_exists(pid), 60, "the worker's end")
    outcome = wait_for(lambda: outcome_of(project, "long.v1"), 60, "the end of the submission")
    assert outcome.status is SubmissionStatus.CANCELLED


def test_a_killed_run_worker_is_replaced_and_the_next_attaches_to_the_work(
    project: Project, server: DagsterServer
) -> None:
    register_recipe(project.store, project.recipe("hardy.v1", steps=LONG * 5), actor="ann")
    ask(server, "hardy.v1")
    attempt = wait_for(lambda: training_attempt(project, "hardy.v1"), 120, "the training")
    pid = attempt.launch()["pid"]
    # The process that started the worker is the one that executes the Dagster run.
    os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)
    assert psutil.pid_exists(pid)
    outcome = wait_for(lambda: outcome_of(project, "hardy.v1"), 240, "the end of the submission")
    assert outcome.status is SubmissionStatus.ACCEPTED, outcome.reason
    assert len(attempts_at(project.store, attempt.address)) == 1
