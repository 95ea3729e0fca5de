"""``ft serve`` says what keeps it from serving before it says where it serves, and then what it serves."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import uvicorn

from ft_assets import api
from ft_assets.cli.ports import listener, only_dagster
from ft_assets.cli.ui import _reports_listener
from ft_assets.control.parity.records import ParityRecord
from ft_assets.control.serving.status import status_file, write_status
from ft_assets.settings.environment import report_pages_url
from ft_assets.settings.models import load_models
from ft_assets.workers.serving.parity.figures import Figures
from ft_assets.workers.serving.parity.report import Outcome, ParityReport
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_resources.artifacts import InputRef
from ft_resources.errors import UserError
from ft_resources.run_processes import process_tag
from tests.cli.conftest import Ft
from tests.control.serving.world import made_status
from tests.e2e.project import Project


def test_a_second_dagster_is_refused_before_anything_is_told_to_be_there(ft: Ft) -> None:
    ft("status")
    with only_dagster(""):
        for command in (("serve", "--ui"), ("ui",)):
            result = ft(*command)
            assert result.exit_code == 2
            assert "Dagster runs on this project already" in result.stderr
            assert "http://" not in result.output


def test_an_api_whose_port_is_taken_ends_before_its_address_is_told(ft: Ft) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = ft("serve", "--port", port)
    assert result.exit_code == 1
    assert f"port {port} is in use" in result.stderr
    assert "http://" not in result.output


@pytest.mark.parametrize("command", ["serve --port", "serve --ui --ui-port", "ui --port", "pages --port"])
def test_a_port_that_no_machine_has_is_refused(ft: Ft, command: str) -> None:
    result = ft(*command.split(), 99999)
    assert (result.exit_code, "65535" in result.stderr) == (2, True)


def starts(monkeypatch: pytest.MonkeyPatch, *, answers: bool = True) -> None:
    """Servers end where they would begin to answer; those that do not answer never come up."""

    async def started(server: uvicorn.Server, sockets: object = None) -> None:
        server.started = answers

    monkeypatch.setattr(uvicorn.Server, "startup", started)
    # Its loop and its end are uvicorn's.
    monkeypatch.setattr(uvicorn.Server, "run", lambda server: asyncio.run(server.startup()))


@pytest.fixture(autouse=True)
def _no_models_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # Set first, so that what a command sets is taken back.
    monkeypatch.setenv("FT_MODELS", "")
    monkeypatch.delenv("FT_MODELS")


@pytest.mark.parametrize(("runs", "code"), [(False, 1), (True, 0)])
def test_an_api_tells_its_address_once_it_answers(
    ft: Ft, monkeypatch: pytest.MonkeyPatch, runs: bool, code: int
) -> None:
    starts(monkeypatch, answers=runs)
    result = ft("serve")
    assert (result.exit_code, "API: http://" in result.stderr) == (code, runs), result.exception


def test_an_api_for_which_no_port_was_named_takes_another_where_its_own_is_taken(
    ft: Ft, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("ft_assets.cli.serve.PORT", port)
        result = ft("serve")
    assert result.exit_code == 0, result.exception
    other = re.search(rf"port {port} is in use: the API is at port (\d+)", result.stderr)
    assert other is not None
    assert f"API: http://127.0.0.1:{other[1]}/v1" in result.stderr


@pytest.mark.parametrize("own", [True, False])
def test_an_api_offers_the_demos_model_where_the_project_offers_none(
    ft: Ft, project: Project, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    if own:
        (project.folder / "models.yaml").write_text("models: {mine: {base: 'folder:base', recipe: {gates: none}}}")
    starts(monkeypatch)
    result = ft("serve")
    assert result.exit_code == 0, result.exception
    assert ("demo-base" in result.stderr, list(load_models().models)) == (not own, ["mine" if own else "demo-base"])


def test_an_api_ends_with_an_error_where_dagster_beside_it_does(ft: Ft, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(server: uvicorn.Server) -> None:
        for thread in threading.enumerate():
            if thread.name == "dagster":
                thread.join()
        server.started = server.should_exit

    monkeypatch.setattr("ft_assets.cli.serve._UI", "raise SystemExit(1)")
    monkeypatch.setattr(uvicorn.Server, "run", serve)
    result = ft("serve", "--ui")
    assert (result.exit_code, "Dagster has ended, and the API with it" in result.stderr) == (1, True), result.exception


def test_pages_whose_port_is_taken_are_at_another_which_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with listener(port, "the pages") as other:
            assert other.getsockname()[1] != port
            assert f"port {port} is in use: the pages use port {other.getsockname()[1]}" in capsys.readouterr().err


@pytest.mark.parametrize("given", [True, False])
def test_links_to_report_pages_lead_where_they_are(monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        if given:
            monkeypatch.setenv("FT_REPORTS_URL", url)
            with pytest.raises(UserError, match="report pages cannot be served"):
                _reports_listener()
            return
        monkeypatch.setattr("ft_assets.settings.environment.REPORTS_URL", url)
        # Set first, so that what is set below is taken back.
        monkeypatch.setenv("FT_REPORTS_URL", "")
        monkeypatch.delenv("FT_REPORTS_URL")
        with _reports_listener() as other:
            assert report_pages_url() == f"http://127.0.0.1:{other.getsockname()[1]}"


def test_the_status_shows_stages_servers_and_what_is_wrong(ft: Ft) -> None:
    assert "ft serve is not running" in ft("serve", "status").stderr
    write_status(made_status(), status_file())
    result = ft("serve", "status")
    assert result.exit_code == 0, result.exception
    assert result.stdout.splitlines()[1].split() == ["acme.a.tiny", "production", "acme/adapter/0123", "b" * 12, "one"]
    assert "globex.b.tiny" in result.stdout
    assert "one: weights are damaged" in result.stdout
    assert "drift: globex.b.tiny@22 is not on one, and should be" in result.stderr
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


def made_parity_record(report: ParityReport, *, server: str) -> ParityRecord:
    ref = InputRef(address="acme/adapter/0123", digest="0" * 64)
    return ParityRecord(
        seq=1,
        previous="",
        id="1",
        line="acme.a.tiny",
        adapter=ref,
        base=ref,
        server=server,
        report=report,
        actor="ann",
        at="2026-01-01T00:00:00+00:00",
    )


def test_parity_shows_each_servers_figures_and_says_by_the_exit_code_whether_all_are_proved(
    ft: Ft, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = Figures(
        prompts=50, other_ids=0, tokens=289, equal=49, argmax=0.98, kl=0.002, p99=0.21, max=1.5, missing=0
    )
    asked = {}

    def checked(*outcomes: Outcome) -> None:
        reports = [
            ParityReport(
                settings=ServerSettings(engine="vllm 0.32.0", dtype="bfloat16"),
                outcome=outcome,
                reasons=() if outcome == "proved" else ("the likeliest token differs",),
                evaluated_in="float32",
                precision="half",
                figures=figures if outcome != "not proved" else None,
            )
            for outcome in outcomes
        ]
        records = [made_parity_record(report, server=f"llama-{n}") for n, report in enumerate(reports)]
        monkeypatch.setattr(api, "check_servers", lambda name, **rest: asked.update(name=name, **rest) or records)

    checked("proved", "proved")
    result = ft("serve", "parity", "acme.a.tiny@staging", "--prompts", "24")
    assert result.exit_code == 0, result.exception
    assert asked == {"name": "acme.a.tiny@staging", "prompts": 24}
    assert "llama-0" in result.stdout
    assert "0.9800" in result.stdout
    checked("proved", "failed", "not proved")
    result = ft("serve", "parity", "acme.a.tiny")
    assert result.exit_code == 3
    assert "llama-1: the likeliest token differs" in result.stderr
    found = json.loads(ft("serve", "parity", "acme.a.tiny", "--json").stdout)
    assert [each["report"]["outcome"] for each in found] == ["proved", "failed", "not proved"]
