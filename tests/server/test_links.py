"""Signed links: what they open, for how long, who gets one, and what no link leads to."""

import re
import time
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ft_assets import api
from ft_assets.control.access import links
from ft_assets.control.access.tables import link_keys
from ft_assets.graph.report_links import report_link
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.work import WorkRequest
from tests.clock import Clock
from tests.control.metering.conftest import url as database_url
from tests.e2e.project import Project
from tests.made import leave

__all__ = ["database_url"]
PAGE = b"<!doctype html><p>rows of acme"
FILES = {
    "report/report.html": PAGE,
    "report/loss.png": b"png",
    "report/rows.jsonl": b"{}",
    "report/deep/page.html": b"deep",
    "train.parquet": b"rows",
    "notes.html": b"not of the report",
}


@pytest.fixture
def made(project: Project) -> Artifact:
    request = WorkRequest(asset="dataset", tenant="acme", code_version="1", inputs={}, params={}, label="things")
    return leave(Artifacts(project.store), request, FILES)


@pytest.fixture
def anybody(served: FastAPI) -> TestClient:
    """Somebody who has no key."""
    return TestClient(served, base_url="http://127.0.0.1", follow_redirects=False)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of links."""
    clock = Clock(time.time())
    monkeypatch.setattr(links.time, "time", clock)
    return clock


@pytest.fixture
def keys(database_url: str) -> Iterator[api.Access]:
    access = api.open_access(database_url)
    yield access
    access.close()


def asking(served: FastAPI, access: api.Access, tenant: str = "acme", role: api.Role = "viewer") -> TestClient:
    _, key = api.create_key(tenant, role=role, access=access, actor="root")
    return TestClient(served, base_url="http://127.0.0.1", headers={"authorization": f"Bearer {key}"})


def link_to(client: httpx.Client, made: Artifact, file: str = "report/report.html") -> str:
    answer = client.post("/v1/ft/links", json={"artifact": str(made.address), "file": file})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["url"])


def test_a_link_opens_its_page_for_whoever_has_it_and_the_page_can_do_nothing(
    served: FastAPI, access: api.Access, made: Artifact, anybody: TestClient
) -> None:
    acme = asking(served, access)
    for file, kind in (("report/report.html", "text/html; charset=utf-8"), ("report/loss.png", "image/png")):
        page = anybody.get(link_to(acme, made, file))
        assert (page.status_code, page.content, page.headers["content-type"]) == (200, FILES[file], kind)
        policy = page.headers["content-security-policy"].split("; ")
        assert {"default-src 'none'", "sandbox", "frame-ancestors 'none'", "form-action 'none'"} <= set(policy)
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cache-control"] == "private, no-store"


def test_a_link_is_over_after_fifteen_minutes_and_says_so(
    served: FastAPI, access: api.Access, made: Artifact, anybody: TestClient, clock: Clock
) -> None:
    url = link_to(asking(served, access), made)
    clock.advance(links.LIFETIME_S - 1)
    assert anybody.get(url).status_code == 200
    clock.advance(1)
    over = anybody.get(url)
    assert (over.status_code, "This link has expired" in over.text) == (403, True)
    assert "sandbox" in over.headers["content-security-policy"]


def test_a_changed_link_opens_nothing(served: FastAPI, access: api.Access, made: Artifact, anybody: TestClient) -> None:
    url = link_to(asking(served, access), made)
    pages = ("loss.png", "rows.jsonl", "../notes.html", "%2e%2e/notes.html", "")
    for part, other in (
        *(("report/report.html", f"report/{page}") for page in pages),
        ("report/report.html", "manifest.json"),
        ("report/report.html", ""),
        ("acme/", "globex/"),
        ("/links/", "/links//"),
        ("expires=", "expires=1"),
        ("key=", "key=a"),
        ("key=", "key=%00"),
        ("signature=", "signature=0"),
        ("signature=", "signature=%C3%A4"),
        ("signature=", "x="),
    ):
        assert part in url
        answer = anybody.get(url.replace(part, other))
        assert (answer.status_code, b"rows" in answer.content) == (403, False), (part, other)
    assert anybody.get(url).content == PAGE


def test_a_link_is_not_made_for_what_is_no_page_and_no_folder_is_listed(
    served: FastAPI, access: api.Access, made: Artifact, anybody: TestClient
) -> None:
    acme = asking(served, access)
    inside = ("report/rows.jsonl", "report/deep/page.html", "report/none.html", "report/", "report")
    outside = ("train.parquet", "notes.html", "manifest.json", "report/../notes.html", "../report/report.html")
    for file in (*inside, *outside):
        wrong = acme.post("/v1/ft/links", json={"artifact": str(made.address), "file": file})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (404, "not_found"), file
    for artifact in ("acme", "acme/dataset", "acme/dataset/" + "0" * 24, "acme/../acme", "/etc", "acme/\0/x"):
        assert acme.post("/v1/ft/links", json={"artifact": artifact}).status_code == 404, artifact
    for path in ("/links", "/links/", "/links/acme", f"/links/{made.address}", f"/links/{made.address}/report/"):
        assert anybody.get(path).status_code in (403, 404)


def test_a_wrong_wish_for_a_link_is_refused_by_its_parameter(served: FastAPI, access: api.Access) -> None:
    acme = asking(served, access)
    for body, param, code in (
        ({}, "artifact", "missing_required_parameter"),
        ({"artifact": ""}, "artifact", "invalid_value"),
        ({"artifact": 1}, "artifact", "invalid_value"),
        ({"artifact": "a" * 301}, "artifact", "invalid_value"),
        ({"artifact": "acme/x/y", "file": ""}, "file", "invalid_value"),
        ({"artifact": "acme/x/y", "expires": 9**9}, "expires", "unknown_parameter"),
    ):
        answer = acme.post("/v1/ft/links", json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"], error["code"]) == (400, param, code), body


def test_a_tenant_gets_links_to_its_own_pages_and_the_platform_to_all(
    served: FastAPI, access: api.Access, made: Artifact, anybody: TestClient
) -> None:
    wanted = {"artifact": str(made.address)}
    assert anybody.post("/v1/ft/links", json=wanted).status_code == 401
    stranger = asking(served, access, "globex", "admin")
    missing = stranger.post("/v1/ft/links", json={"artifact": "globex/dataset/" + "0" * 24})
    assert missing.status_code == 404
    assert stranger.post("/v1/ft/links", json=wanted).json() == missing.json()
    assert anybody.get(link_to(asking(served, access, "shared", "platform"), made)).content == PAGE


def test_a_link_names_the_address_that_browsers_reach(
    served: FastAPI, access: api.Access, made: Artifact, anybody: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_PUBLIC_URL", "https://ft.example.com/")
    url = link_to(asking(served, access), made)
    assert url.startswith("https://ft.example.com/links/acme/dataset/")
    assert anybody.get(url.removeprefix("https://ft.example.com")).content == PAGE


def test_the_link_in_dagster_stays_and_asks_who_wants_the_page(
    served: FastAPI, access: api.Access, made: Artifact, anybody: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert str(report_link(made).value) == f"http://127.0.0.1:3001/{made.address}/report/report.html"
    monkeypatch.setenv("FT_PUBLIC_URL", "http://127.0.0.1")
    kept = str(report_link(made).value)
    assert kept == f"http://127.0.0.1/console/reports/{made.address}/report/report.html"
    asked = anybody.get(kept)
    assert (asked.status_code, asked.headers["location"]) == (303, f"/console/sign-in?next={urlsplit(kept).path}")
    own = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
    statuses = {}
    for tenant, role in (("acme", "viewer"), ("globex", "admin"), ("shared", "platform")):
        person = TestClient(served, base_url="http://127.0.0.1")
        key = api.create_key(tenant, role=role, access=access, actor="root")[1]  # type: ignore[arg-type]
        form = {"key": key, "next": urlsplit(kept).path}
        statuses[tenant] = person.post("/console/sign-in", data=form, headers=own)
    assert {tenant: answer.status_code for tenant, answer in statuses.items()} == {
        "acme": 200,
        "globex": 404,
        "shared": 200,
    }
    for tenant in ("acme", "shared"):
        assert (statuses[tenant].url.path, statuses[tenant].content) == (
            f"/links/{made.address}/report/report.html",
            PAGE,
        )
    # The platform's key opens the page, and no session.
    assert "set-cookie" not in statuses["shared"].headers
    assert all("set-cookie" not in each.headers for each in statuses["shared"].history)
    # An address that was made up leads the platform nowhere else.
    for page in ("/console/jobs", "//evil.example", "/console/reports/x"):
        key = api.create_key("shared", role="platform", access=access, actor="root")[1]
        answer = anybody.post("/console/sign-in", data={"key": key, "next": page}, headers=own)
        assert answer.status_code == 401


def test_a_page_of_erased_data_is_gone_though_the_link_still_holds(
    served: FastAPI, access: api.Access, made: Artifact, anybody: TestClient, project: Project
) -> None:
    url = link_to(asking(served, access), made)
    api.erase_tenant("acme", reason="they asked", store=project.store, actor="root")
    gone = anybody.get(url)
    assert (gone.status_code, "was removed" in gone.text) == (404, True)


def test_who_tries_links_is_held_back_and_who_has_one_is_not(
    served: FastAPI, access: api.Access, made: Artifact, anybody: TestClient
) -> None:
    url = link_to(asking(served, access), made)
    wrong = [anybody.get(url.replace("signature=", f"signature={number}")).status_code for number in range(70)]
    assert (wrong[0], wrong[-1]) == (403, 429)
    assert anybody.get(url).content == PAGE


def test_no_signature_is_written_into_the_audit_log(
    served: FastAPI, access: api.Access, made: Artifact, anybody: TestClient, clock: Clock
) -> None:
    url = link_to(asking(served, access), made)
    clock.advance(links.LIFETIME_S)
    assert anybody.get(url).status_code == 403
    said = [entry.path for tenant in ("", "acme") for entry in api.audit(tenant, access=access)]
    assert f"/links/{made.address}/report/report.html" in said
    (signature,) = parse_qs(urlsplit(url).query)["signature"]
    assert not any(signature in path for path in said)


def test_keys_are_shared_by_all_servers_renewed_each_week_and_forgotten(
    keys: api.Access, database_url: str, clock: Clock
) -> None:
    first = keys.sign("acme/x")
    assert re.fullmatch(r"[0-9a-f]{64}", first.signature)
    other = api.open_access(database_url)
    other.check_link("acme/x", first)
    assert other.sign("acme/x").key == first.key
    clock.advance(7 * 86_400 - 1)
    late = keys.sign("acme/x")
    clock.advance(1)
    second = keys.sign("acme/x")
    assert (late.key == first.key, second.key == first.key, other.sign("acme/x").key) == (True, False, second.key)
    # What the first key signed last still opens, for as long as any link does.
    clock.advance(links.LIFETIME_S - 2)
    other.check_link("acme/x", late)
    clock.advance(7 * 86_400)
    third = keys.sign("acme/x")
    with sa.create_engine(database_url.replace("postgresql:", "postgresql+psycopg2:")).connect() as connection:
        known = set(connection.execute(sa.select(link_keys.c.id)).scalars())
    assert known == {second.key, third.key}
    other.close()
