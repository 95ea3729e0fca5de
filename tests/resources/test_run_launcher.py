"""Run monitoring learns of runs whose code server is gone, and of no others."""

import json
import socket
from pathlib import Path

import dagster as dg
import pytest

from ft_resources.dagster_private import GRPC_INFO_TAG, WorkerStatus
from ft_resources.run_launcher import WatchedRunLauncher
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
