"""Jobs are settled in processes of their own: as here, and one that ends takes nothing with it."""

import os
import signal
from concurrent.futures.process import BrokenProcessPool

import psutil
import pytest

from ft_assets import api
from ft_assets.api import Job
from ft_assets.server.settling_apart import SettlingApart
from tests.e2e.project import Project
from tests.server.conftest import Client, until, upload

# Python starts anew in each process.
pytestmark = pytest.mark.subprocess


@pytest.fixture
def served_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server under test settles nothing itself."""
    monkeypatch.setattr("ft_assets.server.settling.Settling.add", lambda self, job: None)


def test_a_job_is_settled_in_another_process_and_the_next_one_after_that_was_killed(
    served_elsewhere: None, project: Project, client: Client
) -> None:
    acme = client()
    file = upload(acme, project.dataset())
    first, second = (acme.fine_tuning.jobs.create(model="tiny", training_file=file, seed=seed).id for seed in (1, 2))
    apart = SettlingApart(project.store, 1)
    try:
        apart.settle(_job(project, first))
        assert acme.fine_tuning.jobs.retrieve(first).status == "queued"
        for child in _settlers():
            os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(BrokenProcessPool):
            apart.settle(_job(project, first))
        assert acme.fine_tuning.jobs.retrieve(second).status == "validating_files"
        apart.settle(_job(project, second))
        assert acme.fine_tuning.jobs.retrieve(second).status == "queued"
    finally:
        apart.stop()
    until(lambda: not _settlers())


def test_what_is_wrong_with_a_job_is_told_from_there_too(
    served_elsewhere: None, project: Project, client: Client
) -> None:
    acme = client()
    job = acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset(99))).id
    apart = SettlingApart(project.store, 1)
    try:
        apart.settle(_job(project, job))
    finally:
        apart.stop()
    found = acme.fine_tuning.jobs.retrieve(job)
    assert found.status == "failed"
    assert found.error is not None
    assert "too few to learn from" in found.error.message


def _job(project: Project, job_id: str) -> Job:
    return api.job_state("acme", job_id.removeprefix("ftjob-"), store=project.store).job


def _settlers() -> list[psutil.Process]:
    """Processes of a pool that live: started anew by Python, and none of its resource trackers."""
    return [each for each in psutil.Process().children() if any("spawn_main" in part for part in _command(each))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return []
