"""Report pages over HTTP: what a manifest lists below ``report/``, to this machine, and nothing else."""

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from ft_assets.server.reports import report_app
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest
from tests.made import leave

PAGE = b"<!doctype html><p>rows"
FILES = {
    "report/report.html": PAGE,
    "report/loss.png": b"png",
    "report/rows.jsonl": b"{}",
    "report/evil.svg": b"<svg onload='alert(1)'/>",
    "train.parquet": b"rows",
    "notes.html": b"not of the report",
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


@pytest.fixture
def made(store: Store) -> Artifact:
    request = WorkRequest(asset="dataset", tenant="acme", code_version="1", inputs={}, params={}, label="things")
    return leave(Artifacts(store), request, FILES)


@pytest.fixture
def client(store: Store) -> TestClient:
    return TestClient(report_app(store), base_url="http://127.0.0.1:3001")


def test_a_page_and_its_pictures_open_and_can_do_nothing(client: TestClient, made: Artifact) -> None:
    page = client.get(f"/{made.address}/report/report.html")
    assert (page.status_code, page.content) == (200, PAGE)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert client.get(f"/{made.address}/report/loss.png").headers["content-type"] == "image/png"
    for answer in (page, client.get("/"), client.post(f"/{made.address}/report/report.html")):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "private, no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/acme",
        "/acme/dataset",
        "/{address}",
        "/{address}/",
        "/{address}/report/",
        "/{address}/manifest.json",
        "/{address}/train.parquet",
        "/{address}/notes.html",
        "/{address}/report/notes.html",
        "/{address}/report/rows.jsonl",
        "/{address}/report/evil.svg",
        "/{address}/report/none.html",
        "/{address}/report/../notes.html",
        "/{address}/report/..%2fnotes.html",
        "/{address}/report/%2e%2e/%2e%2e/report/report.html",
        "/../../etc/report/passwd.html",
        "/..%2f..%2f..%2fetc/report/hosts.html",
        "//etc/report/passwd.html",
        "/acme/dataset/..%2f/report/report.html",
        "/acme%00/dataset/aa/report/report.html",
        "/acme/dataset/" + "a" * 5000 + "/report/report.html",
        "/acme/dataset/" + quote("\u2025/\u202e") + "/report/report.html",
        "/names/dataset/acme.things.v1.json/report/report.html",
    ],
)
def test_no_other_path_leads_anywhere(client: TestClient, made: Artifact, path: str) -> None:
    answer = client.get(path.replace("{address}", str(made.address)), follow_redirects=False)
    assert answer.status_code in (404, 307)
    assert b"rows" not in answer.content.replace(b"rows.jsonl", b"")
    assert b"not of the report" not in answer.content


def test_nothing_is_written_and_no_other_name_of_this_machine_is_answered(client: TestClient, made: Artifact) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, f"/{made.address}/report/report.html").status_code == 405
    elsewhere = {"host": "evil.example"}
    assert client.get(f"/{made.address}/report/report.html", headers=elsewhere).status_code == 400


def test_links_of_the_file_system_are_not_followed_and_changed_bytes_are_not_shown(
    client: TestClient, made: Artifact, store: Store, tmp_path: Path
) -> None:
    path = store.local_path(made.location("report/report.html"))
    assert path is not None
    (tmp_path / "elsewhere.html").write_bytes(PAGE)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere.html")
    assert client.get(f"/{made.address}/report/report.html").status_code == 404
    path.unlink()
    path.write_bytes(PAGE + b"<script>")
    assert client.get(f"/{made.address}/report/report.html").status_code == 404
    # The store itself may be behind a link, as /tmp is on some systems.
    os.symlink(tmp_path / "store", tmp_path / "linked")
    path.write_bytes(PAGE)
    behind = TestClient(report_app(open_store(str(tmp_path / "linked"))), base_url="http://127.0.0.1:3001")
    assert behind.get(f"/{made.address}/report/report.html").content == PAGE
