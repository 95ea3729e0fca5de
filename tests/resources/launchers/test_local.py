"""What is the local launcher's alone: one machine, its clock, its process ids and its files."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from ft_resources.attempts import Attempt, attempts_at
from ft_resources.errors import UserError, WorkFailed
from ft_resources.execution import Execution
from ft_resources.launchers.base import LaunchState
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from tests.cluster.fixtures import until
from tests.resources.small_work import begun, in_thread, outcome, request_for

pytestmark = pytest.mark.subprocess


def test_several_nodes_are_refused_where_there_is_one_machine_and_nobody_waits_for_them(execution: Execution) -> None:
    request = request_for("write", text="x", runtime={"nodes": 2})
    for _ in range(2):
        with pytest.raises(UserError, match="2 nodes were requested") as caught:
            execution.run(request, actor="a")
        assert "cluster" in caught.value.remedy
    first, second = attempts_at(execution.store, request.address)
    for attempt in (first, second):
        assert outcome(attempt) is Outcome.USER_ERROR
        assert attempt.launch() is None


def test_no_worker_leaves_files_on_its_machine(
    execution: Execution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_SCRATCH", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    request = request_for("fail", how="killed", times=1)
    execution.run(request, actor="a")
    assert len(attempts_at(execution.store, request.address)) == 2
    until(lambda: not list((tmp_path / "scratch").iterdir()))


def test_a_worker_that_cannot_be_started_ends_its_attempt_at_once(
    execution: Execution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_for("write", text="x")
    monkeypatch.setenv("FT_SCRATCH", str(tmp_path / "missing"))
    with pytest.raises(WorkFailed, match="no worker could be started"):
        execution.run(request, actor="a")
    assert attempts_at(execution.store, request.address)[-1].ending() is not None


def test_a_kind_of_work_runs_with_its_own_python_and_others_with_this_one(store: Store, tmp_path: Path) -> None:
    program, used = tmp_path / "python", tmp_path / "used"
    program.write_text(f'#!/bin/sh\necho "$2" >> {used}\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    launcher = LocalLauncher(module="tests.fake_worker", pythons={"write": str(program)})
    execution = Execution(store=store, launcher=launcher, poll_s=0.05)
    assert execution.run(request_for("write", text="x"), actor="a").artifact.read("text.txt") == b"x"
    assert used.read_text() == "tests.fake_worker\n"
    execution.run(request_for("fail", how="never", times=0), actor="a")
    assert used.read_text() == "tests.fake_worker\n"


def test_a_store_whose_path_has_a_hash_sign_works(tmp_path: Path) -> None:
    execution = Execution(
        store=Store(str(tmp_path / "c# 100%")), launcher=LocalLauncher(module="tests.fake_worker"), poll_s=0.05
    )
    assert execution.run(request_for("write", text="x"), actor="a").artifact.read("text.txt") == b"x"


def test_a_worker_is_recognised_after_the_clock_was_set(execution: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start times are counted from a boot time that moves with the clock; a living worker was taken for dead."""
    request = request_for("write", text="x", runtime={"held": 1})
    thread, results = in_thread(lambda: execution.run(request, actor="a"))
    attempt = begun(execution.store, request)
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: 12.0)
    assert LocalLauncher().state(attempt) is LaunchState.RUNNING
    assert execution.cancel(request.address, actor="a")
    thread.join()
    assert isinstance(results[0], WorkFailed)


def test_a_process_that_only_shares_the_id_is_not_the_worker(store: Store, tmp_path: Path) -> None:
    attempt = Attempt(store, request_for("write", text="x").address, 1)
    launcher = LocalLauncher()
    handle = {"launcher": "local", "host": os.uname().nodename, "pid": os.getpid(), "folder": "", "log": ""}
    attempt.write_launch(handle)
    assert launcher.state(attempt) is LaunchState.GONE
    launcher.stop(attempt, 0.1)
    attempt.write_launch({**handle, "host": "elsewhere"})
    assert launcher.state(attempt) is LaunchState.UNKNOWN
