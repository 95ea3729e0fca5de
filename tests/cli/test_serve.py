"""``ft serve`` says what keeps it from serving before it says where it serves, and then what it serves."""

import json
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ft_assets.cli import serve
from ft_assets.control.serving.status import status_file, write_status
from ft_resources.run_processes import process_tag
from tests.cli.conftest import Ft
from tests.control.serving.world import made_status


def test_a_second_dagster_is_refused_before_anything_is_told_to_be_there(
    ft: Ft, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(serve, "_UI_PORT", port)
        result = ft("serve", "--ui")
    assert result.exit_code != 0
    assert f"port {port} is in use" in str(result.exception) + result.stderr
    assert "http://" not in result.output


def test_the_status_shows_stages_servers_and_what_is_wrong(ft: Ft) -> None:
    assert "No ft serve follows the lines" in ft("serve", "status").stderr
    write_status(made_status(), status_file())
    result = ft("serve", "status")
    assert result.exit_code == 0, result.exception
    assert result.stdout.splitlines()[1].split() == ["acme.a.tiny", "production", "acme/adapter/0123", "b" * 12, "one"]
    assert "globex.b.tiny" in result.stdout
    assert "one: weights are damaged" in result.stdout
    assert "drift: globex.b.tiny@22 is wanted, and not on one" in result.stderr
    found = json.loads(ft("serve", "status", "--json").stdout)
    assert [each["models"] for each in found["servers"]] == [["acme.a.tiny@11", "globex.b.tiny@22"]]


def test_the_status_of_a_process_that_is_gone_or_hangs_is_none(ft: Ft) -> None:
    old = (datetime.now(UTC) - timedelta(minutes=2)).isoformat(timespec="seconds")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        there = replace(made_status(), process=process_tag(other.pid))
        write_status(there, status_file())
        assert "acme.a.tiny" in ft("serve", "status").stdout
        write_status(replace(there, at=old), status_file())
        assert ft("serve", "status").stdout == ""
        write_status(there, status_file())
        other.kill()
        other.wait()
        assert ft("serve", "status").stdout == ""
