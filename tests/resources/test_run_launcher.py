"""Run monitoring learns of runs whose code server is gone, and of no others."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from ft_assets.graph.run import end_lost_runs
from ft_assets.settings import tags
from ft_resources.dagster_private import GRPC_INFO_TAG, WorkerStatus
from ft_resources.run_launcher import WatchedRunLauncher
from ft_resources.run_processes import PROCESS, gone
from tests.dagster_private import create_run_for_test
from tests.e2e.project import ROOT


def status(**info: object) -> WorkerStatus:
    run = dg.DagsterRun(job_name="train_pair", tags={GRPC_INFO_TAG: json.dumps(info)} if info else {})
    return WatchedRunLauncher().check_run_worker_health(run).status


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_a_run_is_gone_when_nothing_listens_where_it_was_started(tmp_path: Path, family: int) -> None:
    server = socket.socket(family, socket.SOCK_STREAM)
    server.bind(str(tmp_path / "s") if family == socket.AF_UNIX else ("127.0.0.1", 0))
    info: dict[str, object] = {"host": "localhost"}
    if family == socket.AF_UNIX:
        info["socket"] = str(tmp_path / "s")
    else:
        info["port"] = server.getsockname()[1]
    server.listen()
    assert status(**info) is WorkerStatus.RUNNING
    server.close()
    assert status(**info) is WorkerStatus.FAILED


def test_a_run_of_which_nothing_is_known_is_left_alone() -> None:
    assert status() is WorkerStatus.RUNNING


def test_the_embedded_instance_watches_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_STATE", str(tmp_path / "state"))
    (tmp_path / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert isinstance(instance.run_launcher, WatchedRunLauncher)
        assert instance.run_monitoring_enabled


@pytest.mark.dagster
def test_a_run_ends_with_the_process_that_executed_it_and_with_no_other(tmp_path: Path) -> None:
    """`ft run` has no code server: a kill -9 left its run started for ever."""
    write = "from ft_resources.run_processes import process_tag; print(process_tag(), flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", write], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    tag = child.stdout.readline().strip()
    run = dg.DagsterRun(job_name="train_pair", tags={PROCESS: tag})
    assert WatchedRunLauncher().check_run_worker_health(run).status is WorkerStatus.RUNNING
    with dg.DagsterInstance.ephemeral() as instance:
        lost = create_run_for_test(
            instance, tags={PROCESS: tag, tags.FOREGROUND: "true"}, status=dg.DagsterRunStatus.STARTED
        )
        end_lost_runs(instance)
        assert instance.get_run_by_id(lost.run_id).status is dg.DagsterRunStatus.STARTED
        child.kill()
        child.wait()
        health = WatchedRunLauncher().check_run_worker_health(run)
        assert health.status is WorkerStatus.FAILED
        assert f"process {child.pid}" in str(health.msg)
        # What the UI launches again has the tags of the run before, and a process that Dagster looks after.
        again = create_run_for_test(
            instance,
            tags=instance.get_run_by_id(lost.run_id).tags,
            parent_run_id=lost.run_id,
            root_run_id=lost.run_id,
            status=dg.DagsterRunStatus.STARTED,
        )
        end_lost_runs(instance)
        assert instance.get_run_by_id(lost.run_id).status is dg.DagsterRunStatus.FAILURE
        assert instance.get_run_by_id(again.run_id).status is dg.DagsterRunStatus.STARTED
        assert WatchedRunLauncher().check_run_worker_health(again).status is WorkerStatus.RUNNING
    # Of another machine, or another boot of this one, nobody here can know.
    host, *rest = tag.split(" ")
    assert gone(" ".join(["elsewhere", *rest])) == gone(" ".join([host, "boot", *rest[1:]])) == gone("") == ""
    # An id that was given to another process since.
    assert gone(" ".join([host, *rest[:2], str(os.getpid()), "1"]))
