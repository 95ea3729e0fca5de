"""``ft pages``: Dagster's pages on a cluster, where nobody but the door reaches Dagster's own server."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import Ft
from tests.cli.conftest import ft as ft
from tests.cli.conftest import project as project
from tests.e2e.dagster_server import DagsterServer, free_port, tail, wait_for

TOKEN = "0123456789abcdef01234567"


@pytest.mark.parametrize("token", ["", "short"])
def test_pages_without_a_token_that_nobody_guesses_are_not_served(
    ft: Ft, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_PAGES_TOKEN", token)
    refused = ft("pages", "-w", "workspace.yaml")
    assert refused.exit_code != 0
    assert "openssl rand" in str(refused.exception) + refused.stderr


@pytest.mark.parametrize(
    "origin", ["dagster.example.com", "https://dagster.example.com/", "https://a@b.example", "ftp://x", "https://x/y"]
)
def test_an_origin_that_no_browser_would_say_is_refused(ft: Ft, origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_PAGES_TOKEN", TOKEN)
    refused = ft("pages", "-w", "workspace.yaml", "--origin", origin)
    assert "is not an origin" in str(refused.exception) + refused.stderr


@pytest.mark.e2e
def test_the_pages_are_had_by_token_only_and_end_with_dagster_s_server(tmp_path: Path) -> None:
    (tmp_path / "workspace.yaml").write_text("load_from: []\n")
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    port = free_port()
    own = {"DAGSTER_HOME": str(tmp_path), "FT_STATE": str(tmp_path), "FT_PAGES_TOKEN": TOKEN}
    ft = str(Path(sys.executable).parent / "ft")
    command = [ft, "pages", "-w", str(tmp_path / "workspace.yaml"), "-p", str(port)]
    with (tmp_path / "log").open("wb") as log:
        pages = psutil.Popen(command, env={**os.environ, **own}, cwd=tmp_path, stdout=log, stderr=log)
    try:
        try:
            wait_for(DagsterServer(port, pages, TOKEN).answers, 600, "Dagster's pages")
        except AssertionError as error:
            raise AssertionError(tail(tmp_path / "log")) from error
        assert not DagsterServer(port, pages, "another token, that is wrong").answers()
        (dagster,) = pages.children()
        listening = [each.laddr for each in dagster.net_connections("tcp") if each.status == "LISTEN"]
        assert {each.ip for each in listening} == {"127.0.0.1"}
        # Below a path that only the door knows, and without the door's token.
        assert dagster.environ()["DAGSTER_WEBSERVER_PATH_PREFIX"] not in (tmp_path / "log").read_text()
        assert "FT_PAGES_TOKEN" not in dagster.environ()
        dagster.kill()
        assert pages.wait() == 1
    finally:
        for each in [*pages.children(recursive=True), pages] if pages.is_running() else []:
            each.kill()
