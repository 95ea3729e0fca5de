"""Ctrl-C of a real ``ft run``, or of Python: the work stops, and the submission is cancelled, not failed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.submissions.status import State
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.launchers.base import LaunchState
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from tests.e2e.project import LONG, make_project

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("forked")]


def test_ctrl_c_of_a_foreground_run_stops_its_worker_and_cancels(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    command = [sys.executable, "-c", "from ft_assets.cli.main import app; app()", "run"]
    command += [str(project.dataset()), str(project.recipe(steps=10 * LONG)), "--name", "acme.colours"]
    process = subprocess.Popen(
        command,
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        # The one worker that takes so long that the interrupt comes first, on a busy machine too.
        if line.startswith("train"):
            # A terminal tells all processes of the group.
            os.killpg(process.pid, signal.SIGINT)
            break
    rest = process.stdout.read()
    assert process.wait() == 130, rest
    assert "cancelled" in rest
    assert "Traceback" not in rest
    (status,) = api.list_submissions(store=project.store)
    assert status.state is State.CANCELLED
    request = identity.checkpoint_request(Artifacts(project.store), "acme.colours.v1", "tiny.v1")
    (attempt,) = attempts_at(project.store, request.address)
    ending = attempt.ending()
    assert ending is not None
    assert ending.outcome is Outcome.CANCELLED
    assert LocalLauncher().state(attempt) is LaunchState.GONE


def test_python_says_nothing_of_dagster_and_its_ctrl_c_is_an_outcome(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    arguments = (str(project.dataset()), str(project.recipe(steps=10 * LONG)))
    script = f"from ft_assets.api import fine_tune; made = fine_tune(*{arguments}, name='acme.colours')"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{script}; print('outcome', made.outcome.status)"],
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and not _trains(project.store):
        time.sleep(0.2)
    assert process.poll() is None, process.communicate()[0]
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate()
    assert said.splitlines()[-1] == "outcome cancelled"
    assert "Traceback" not in said
    assert "DEBUG" not in said
    newest, *_ = project.instance().get_runs()
    assert newest.status is dg.DagsterRunStatus.CANCELED
    assert "DEBUG" in (project.folder / "state" / "foreground.log").read_text()
    (status,) = api.list_submissions(store=project.store)
    assert status.state is State.CANCELLED


def _trains(store: Store) -> bool:
    """Whether a training has taken a step."""
    return any(each.asset == "checkpoint" and each.step for each in api.list_submissions(store=store))
