"""A real training that a person pauses in the middle and resumes: no step is lost, and the bytes are a quiet one's."""

import shutil
import threading
from pathlib import Path

import dagster as dg
import pytest

from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.submissions.status import State
from ft_assets.graph.orchestrator import Dagster
from ft_assets.records.submissions import open_submissions
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.errors import SubmissionPaused
from ft_resources.execution import Execution
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import Outcome
from ft_resources.store_marker import open_store
from tests.e2e.dagster_server import LONG_S, wait_for
from tests.e2e.project import LONG, Project
from tests.journeys import Journey, copied

# The pause itself: cli/test_pauses.py; the bytes of what goes on from a save: workers/training/test_resuming.py.
pytestmark = [pytest.mark.e2e, pytest.mark.long]

RECIPE = "slow.v1"


@pytest.fixture
def project(accepted: Journey, tmp_path: Path) -> Project:
    return copied(accepted, tmp_path / "project").project


def at_step(attempt: Attempt) -> int:
    progress = attempt.progress()
    return int(progress.get("done", 0)) if progress.get("phase") == "training" else 0


def in_training(project: Project) -> str:
    """The submission whose training has done its first steps; empty before."""
    for submission in open_submissions(project.store):
        for work in api.works(submission, store=project.store):
            trains = work.asset == "checkpoint" and work.running and work.address is not None
            if trains and at_step(Attempt(project.store, work.address, work.attempt)):
                return submission.id
    return ""


def pause_in_the_middle(project: Project, instance: dg.DagsterInstance, paused: list[api.Paused]) -> None:
    """Run a command as in another terminal."""
    submission = wait_for(lambda: in_training(project), LONG_S, "the training", every_s=0.02)
    how = {"orchestrator": Dagster(instance), "launcher": LocalLauncher()}
    paused.append(api.pause(submission, reason="lunch", store=project.store, actor="bob", **how))


def test_a_training_paused_in_the_middle_and_resumed_ends_with_the_bytes_of_one_that_nobody_paused(
    project: Project, accepted: Journey
) -> None:
    instance, recipe = project.instance(), project.recipe(RECIPE, steps=4 * LONG)
    paused: list[api.Paused] = []
    person = threading.Thread(target=pause_in_the_middle, args=(project, instance, paused))
    person.start()
    with pytest.raises(SubmissionPaused, match="paused by bob: lunch"):
        project.tune(accepted.dataset, recipe)
    person.join()
    (pause,) = paused
    assert [each.asset for each in pause.workers] == ["checkpoint"]
    status = api.status(pause.submission.id, store=project.store)
    assert (status.state, status.detail) == (State.PAUSED, "paused by bob: lunch")

    dataset, artifacts = pause.submission.dataset, Artifacts(project.store)
    request = identity.checkpoint_request(artifacts, dataset, RECIPE)
    (stopped,) = attempts_at(project.store, request.address)
    ending = stopped.ending()
    assert ending is not None
    assert ending.outcome is Outcome.CANCELLED
    assert artifacts.find(request.address) is None
    # What one that nobody paused gives, from the same inputs in a store of its own.
    shutil.copytree(project.folder / "store", project.folder / "quiet")
    quiet = open_store(f"file://{project.folder}/quiet")
    shutil.rmtree(quiet.local_path(str(request.address)))
    expected = Execution(store=quiet, launcher=LocalLauncher()).run(request, actor="ann").artifact
    assert expected.facts.get("resumed", []) == []

    assert api.resume(pause.submission.id, store=project.store, actor="ann").command == f"ft run {dataset} {RECIPE}"
    made = project.tune(dataset, RECIPE)
    assert made.submission.id == pause.submission.id
    assert made.outcome.adapter
    checkpoint = artifacts.get(request.address)
    (resumed,) = checkpoint.facts["resumed"]
    # It went on from the step at which it was stopped.
    assert 0 < at_step(stopped) <= resumed["step"] < 4 * LONG
    assert checkpoint.digest == expected.digest
