"""Over many random requests, no tenant sees an id of another, changes anything of it, or makes the server fail."""

import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ft_assets import api
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.work import WorkRequest
from tests.cli.test_lines import adapters as adapters
from tests.control.lines.promotable import LINE
from tests.described_answers import description_of
from tests.e2e.project import Project
from tests.made import leave
from tests.server.strangers import Stranger

pytestmark = pytest.mark.statistics
ROWS = b'{"messages": [{"role": "user", "content": "zanzibar"}, {"role": "assistant", "content": "zebra"}]}\n' * 40
PAGE = b"<!doctype html><p>zanzibar and zebra"
# Ids of files, jobs and artifacts, and what only acme says. Shorter words could be anybody's.
_SECRET = re.compile(r"[0-9a-f]{24,64}|zanzibar[a-z]*|zebra|acme\.[a-z0-9.-]+")
_ASKED = re.compile(r'"path":"[^"]*"')


@pytest.fixture
def asked(adapters: list[Artifact], served: FastAPI, access: api.Access, project: Project) -> dict[str, TestClient]:
    """Two administrators' clients, by tenant."""
    context = served.state.context
    with (project.folder / "tenants.yaml").open("a") as file:
        file.write("tiers: {default: {requests_per_minute: null, requests_per_minute_of_one: null}}\n")
    # Nobody looks at the files: what is asked for stays as it is.
    served.state.context = replace(context, settle=lambda job: None)
    clients = {}
    for tenant in ("acme", "globex"):
        _, key = api.create_key(tenant, role="admin", access=access, actor="root")
        headers = {"authorization": f"Bearer {key}"}
        clients[tenant] = TestClient(served, base_url="http://127.0.0.1", headers=headers)
    return clients


@pytest.mark.parametrize("requests", [600, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_tenant_learns_nothing_of_another_and_changes_nothing_of_it(
    requests: int, adapters: list[Artifact], asked: dict[str, TestClient], served: FastAPI, project: Project
) -> None:
    acme, globex = asked["acme"], asked["globex"]
    live(acme, project, adapters)
    own = _upload(globex, "own.jsonl", ROWS.replace(b"z", b"b"))
    before = _all_of(acme)
    page = f"{_report(project, 'acme').address}/report/report.html"
    # Of a link nobody knows the signature; all else a stranger may know, and have links of its own.
    link = _signed(_link(acme, page))
    secrets = sorted({*_SECRET.findall(before), link["signature"]})
    assert len(secrets) > 10
    own_link = _signed(_link(globex, f"{_report(project, 'globex').address}/report/report.html"))
    links = [page, page.partition("/report/")[0], link["expires"], link["key"], *own_link.values()]
    known = [*_forms(sorted(set(secrets) - {link["signature"]})), *links, f"file-{own}", own]
    stranger = Stranger(description_of(served), known, seed=20261124)
    statuses: dict[int, int] = {}
    for request in stranger.requests(requests):
        answer = globex.request(
            request.method, request.path, params=request.query, headers=request.headers, json=request.body
        )
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
        said = f"{request.said} {answer.request.url}"
        told = f"{_without_own_words(answer)} {answer.headers}"
        shown = {secret for secret in secrets if secret in told and secret not in said}
        assert not shown, (request, answer.text)
        assert answer.status_code < 500, (request, answer.text)
    assert _all_of(acme) == before
    for signature in ({}, own_link, {**link, "signature": own_link["signature"]}):
        assert globex.get(f"/links/{page}", params=signature).status_code in (403, 429)
    assert globex.post("/v1/ft/links", json=_wanted(page)).status_code == 404
    assert globex.get(f"/links/{page}", params=link).content == PAGE
    # Requests that are all turned away at the first look would show nothing.
    assert statuses[200] > requests / 20
    assert statuses[404] > requests / 20


def _without_own_words(answer: httpx.Response) -> str:
    """The text of an answer; the audit log repeats which addresses a tenant asked for itself."""
    return _ASKED.sub("", answer.text) if answer.request.url.path.startswith("/v1/ft/audit") else answer.text


def live(acme: TestClient, project: Project, adapters: list[Artifact]) -> None:
    """Let acme have one of everything."""
    file = _upload(acme, "zanzibar.jsonl")
    upload = {"filename": "zanzibar2.jsonl", "purpose": "fine-tune", "bytes": 10, "mime_type": "text/plain"}
    begun = acme.post("/v1/uploads", json=upload).json()["id"]
    assert acme.post(f"/v1/uploads/{begun}/parts", files={"data": b"12345"}).status_code == 200
    for number in range(3):
        body = {"model": "tiny", "training_file": f"file-{file}", "suffix": "zanzibar", "seed": number}
        created = acme.post("/v1/fine_tuning/jobs", json={**body, "metadata": {"is": "zebra"}})
        assert created.status_code == 200, created.text
    cancelled = created.json()["id"]
    assert acme.post(f"/v1/fine_tuning/jobs/{cancelled}/cancel").status_code == 200
    job = next(each for each in api.unsettled_jobs(store=project.store) if each.seed == 0)
    api.settle_job(job, store=project.store)
    promoted = {"to": "production", "reason": "zebra", "adapter": str(adapters[0].address)}
    assert acme.post(f"/v1/ft/lines/{LINE}/promote", json=promoted).status_code == 200


def _report(project: Project, tenant: str) -> Artifact:
    request = WorkRequest(asset="dataset", tenant=tenant, code_version="1", inputs={}, params={}, label="things")
    return leave(Artifacts(project.store), request, {"report/report.html": PAGE})


def _wanted(page: str) -> dict[str, str]:
    return {"artifact": page.partition("/report/")[0], "file": "report/report.html"}


def _link(client: TestClient, page: str) -> str:
    answer = client.post("/v1/ft/links", json=_wanted(page))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["url"])


def _signed(link: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(link).query))


def _upload(client: TestClient, name: str, rows: bytes = ROWS) -> str:
    answer = client.post("/v1/files", files={"file": (name, rows)}, data={"purpose": "fine-tune"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"]).removeprefix("file-")


def _all_of(client: TestClient) -> str:
    """All that a tenant sees of itself."""
    lists = ("/files", "/fine_tuning/jobs", "/models", "/ft/datasets", "/ft/recipes", "/ft/lines", f"/ft/lines/{LINE}")
    found = [_get(client, path) for path in lists]
    for job in found[1]["data"]:
        found += [_get(client, f"/fine_tuning/jobs/{job['id']}/{what}") for what in ("events", "checkpoints")]
    return str(found)


def _get(client: TestClient, path: str) -> Any:
    answer = client.get(f"/v1{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def _forms(secrets: list[str]) -> list[str]:
    """What a stranger could send who somehow knows them."""
    ids = [each for each in secrets if re.fullmatch(r"[0-9a-f]{24}", each)]
    return [*secrets, *(f"{prefix}{each}" for each in ids for prefix in ("file-", "ftjob-", "upload_", "ftevent-"))]
