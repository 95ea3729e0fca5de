"""``/v1/datasets`` as the specification's table has it, asked by scripts that know no more than the table."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import boto3
import httpx
import pytest
from fastapi import FastAPI

from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.access import links
from ft_assets.records.part_uploads import LIFETIME_S
from ft_assets.server.app import api_app
from ft_assets.server.long_calls import LongCalls
from ft_resources.artifacts import Artifact, Artifacts, InputRef
from ft_resources.canonical import canonical_json
from ft_resources.store import Store
from ft_resources.work import WorkRequest
from tests.e2e.project import Project
from tests.listening import listening
from tests.made import REVISION, SOURCE, leave
from tests.s3_server import s3_server, use_bucket
from tests.server.conftest import Asker, Nobody, until

ROWS = 160


@pytest.fixture
def rows(project: Project) -> bytes:
    return project.dataset().read_bytes()


@pytest.fixture
def acme(asker: Asker) -> httpx.Client:
    return asker("acme", "member")


def begun(client: httpx.Client, rows: bytes, **changes: Any) -> dict[str, Any]:
    body = {"name": "tickets", "filename": "tickets.jsonl", "bytes": len(rows), **changes}
    answer = client.post("/datasets", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def put(upload: dict[str, Any], data: bytes) -> httpx.Response:
    """As somebody who has nothing but the address."""
    return httpx.put(upload["url"], content=data, headers=upload["headers"])


def error_of(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["message"])


def test_a_form_becomes_a_version_which_is_listed_and_shown(acme: httpx.Client, rows: bytes, project: Project) -> None:
    made = acme.post("/datasets", data={"name": "tickets"}, files={"file": ("tickets.jsonl", rows)})
    assert made.status_code == 200, made.text
    shown = made.json()
    expected = {
        "id": "acme.tickets.v1",
        "object": "dataset",
        "name": "acme.tickets",
        "version": 1,
        "key": "acme.tickets.v1",
        "status": "not curated",
        "why": "",
        "format": "chat",
        "row_count": ROWS,
        "rows": None,
        "token_count": {},
        "dedup_removed": None,
        "contamination_flagged": None,
        "bytes": len(rows),
        "report": None,
        "warnings": [],
    }
    assert {name: shown[name] for name in expected} == expected
    assert shown["uri"].startswith(f"{project.store_url}/")
    assert abs(shown["created_at"] - time.time()) < 600
    del shown["warnings"]
    assert acme.get("/datasets").json()["data"] == [acme.get(f"/datasets/{shown['id']}").json()] == [shown]
    # It is complete as it is, to those who complete whatever they upload.
    completed = acme.post(f"/datasets/{shown['id']}/complete")
    assert (completed.status_code, completed.json()) == (200, {**shown, "warnings": []})
    again = acme.post("/datasets", data={"name": "acme.tickets"}, files={"file": ("other.jsonl", rows)})
    assert again.json()["id"] == shown["id"]


def uploaded_to_an_address(acme: httpx.Client, rows: bytes) -> None:
    made = begun(acme, rows)
    upload, dataset = made["upload"], f"/datasets/{made['id']}"
    assert (made["version"], upload["method"]) == (1, "PUT")
    assert 0 < upload["expires_at"] - time.time() <= 900
    assert "no bytes were sent" in error_of(acme.post(f"{dataset}/complete"))
    assert put(upload, rows).status_code == 200
    # It is nothing yet but an upload, however often it is sent.
    assert put(upload, rows[::-1]).status_code in (400, 412)
    assert acme.get("/datasets").json()["data"] == []
    assert acme.get(dataset).json()["status"] == "awaiting upload"
    completed = acme.post(f"{dataset}/complete")
    assert completed.status_code == 200, completed.text
    assert completed.json()["row_count"] == ROWS
    assert [each["id"] for each in acme.get("/datasets").json()["data"]] == [made["id"]]
    assert {acme.get(f"/datasets/{each}").json()["key"] for each in (made["id"], "acme.tickets.v1")} == {
        "acme.tickets.v1"
    }
    # Doing it again changes nothing, and the same rows are the same version.
    assert acme.post(f"{dataset}/complete").json() == {**completed.json(), "warnings": []}
    other = begun(acme, rows)
    assert other["version"] == 2
    assert put(other["upload"], rows).status_code == 200
    assert acme.post(f"/datasets/{other['id']}/complete").json()["version"] == 1
    page = acme.get("/datasets", params={"after": made["id"]}).json()
    assert page["data"] == []


def test_rows_go_to_a_signed_address_of_the_server_where_the_store_is_a_folder(
    acme: httpx.Client, rows: bytes, url: str
) -> None:
    assert begun(acme, rows)["upload"]["url"].startswith(f"{url}/datasets/dataset-")
    uploaded_to_an_address(acme, rows)


@pytest.fixture
def bucket(acme: httpx.Client, access: api.Access, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The server of a bucket, of which ``acme`` now asks a server."""
    with s3_server() as endpoint:
        store = Store(use_bucket(monkeypatch, endpoint, "rows"))
        with listening(api_app(store, access, orchestrator=Nobody())) as address:
            acme.base_url = httpx.URL(f"{address}/v1/")
            yield endpoint


def test_rows_go_straight_into_a_bucket_as_many_as_were_announced_and_once(
    bucket: str, acme: httpx.Client, rows: bytes
) -> None:
    upload = begun(acme, rows)["upload"]
    assert upload["url"].startswith(f"{bucket}/rows/root/")
    # What S3 looks at before it takes a byte: tests' server looks at the condition alone.
    assert "X-Amz-SignedHeaders=content-length%3Bhost%3Bif-none-match&" in upload["url"]
    assert upload["headers"] == {"Content-Length": str(len(rows)), "If-None-Match": "*"}
    uploaded_to_an_address(acme, rows)
    kept = boto3.client("s3", endpoint_url=bucket).list_objects_v2(Bucket="rows", Prefix="root/acme/uploads/")
    assert not [each["Key"] for each in kept["Contents"] if "/parts/" in each["Key"]]
    too_large = begun(acme, rows, bytes=6 << 30)["upload"]["url"]
    assert not too_large.startswith(bucket)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "globex.tickets"}, "a dataset is named after its tenant"),
    ({"name": "a/b"}, "cannot be"),
    ({"filename": "../tickets.jsonl"}, "cannot be the name of a file"),
    ({"filename": "tickets.exe"}, "tickets.exe"),
    ({"bytes": 0}, "bytes must be at least 1"),
    ({"bytes": 1 << 40}, "over 50 GiB"),
    ({"bytes": True}, "bytes must be a whole number"),
    ({"bytes": "10"}, "bytes must be a whole number"),
    ({"format": "jsonl"}, "there is no member 'format' here"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=lambda each: json.dumps(each)[:40])
def test_what_cannot_become_a_dataset_is_refused_by_name(
    acme: httpx.Client, project: Project, changes: dict[str, Any], said: str
) -> None:
    body = {"name": "tickets", "filename": "tickets.jsonl", "bytes": 10, **changes}
    answer = acme.post("/datasets", json=body)
    assert 400 <= answer.status_code < 404, answer.text
    assert said in error_of(answer)
    if "name" in changes:
        assert answer.json()["error"]["param"] == "name"
    assert list(project.store.entries("acme/uploads")) == []


def test_what_is_no_dataset_is_not_found_by_the_id_that_was_asked_for(acme: httpx.Client) -> None:
    for name in (
        "dataset-0123456789abcdef01234567",
        "dataset-x",
        "x",
        "acme.tickets",
        "acme.tickets.v1",
        "globex.a.v1",
    ):
        for answer in (acme.get(f"/datasets/{name}"), acme.post(f"/datasets/{name}/complete")):
            assert (answer.status_code, f"{name!r}" in error_of(answer)) == (404, True), answer.text


def test_what_a_request_does_not_have_is_an_error_by_its_name(acme: httpx.Client, rows: bytes) -> None:
    asked: list[tuple[str, httpx.Response]] = [
        ("colour", acme.get("/datasets", params={"colour": "red"})),
        ("colour", acme.post("/datasets", params={"colour": "red"}, json={})),
        ("colour", acme.post("/datasets", data={"name": "a", "colour": "b"}, files={"file": ("a.jsonl", rows)})),
        ("name", acme.post("/datasets", files={"file": ("a.jsonl", rows)})),
        ("file", acme.post("/datasets", data={"name": "a"}, files={"other": ("a.jsonl", rows)})),
        ("neither JSON nor multipart", acme.post("/datasets", content=b"name=a")),
    ]
    for said, answer in asked:
        assert (answer.status_code, said in answer.text) == (400, True), answer.text


def test_a_repeated_announcement_with_a_key_is_the_same_upload(acme: httpx.Client, rows: bytes) -> None:
    keyed = {"Idempotency-Key": "tickets-1"}
    body = {"name": "tickets", "filename": "tickets.jsonl", "bytes": len(rows)}
    first, again = (acme.post("/datasets", json=body, headers=keyed).json() for _ in range(2))
    assert first["id"] == again["id"]
    other = acme.post("/datasets", json={**body, "bytes": 7}, headers=keyed)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_key_in_use")
    assert put(again["upload"], rows).status_code == 200
    assert acme.post(f"/datasets/{first['id']}/complete").status_code == 200
    completed = acme.post("/datasets", json=body, headers=keyed).json()
    assert (completed["id"], completed["row_count"], completed["upload"]) == (first["id"], ROWS, None)


def test_a_key_is_of_one_upload_whichever_way_it_goes(acme: httpx.Client, rows: bytes) -> None:
    def sent(data: bytes) -> httpx.Response:
        file = {"file": ("tickets.jsonl", data)}
        return acme.post("/datasets", data={"name": "tickets"}, files=file, headers={"Idempotency-Key": "tickets-1"})

    assert [sent(rows).json()["version"] for _ in range(2)] == [1, 1]
    announced = {"name": "tickets", "filename": "tickets.jsonl", "bytes": len(rows)}
    for other in (sent(rows + rows), acme.post("/datasets", json=announced, headers={"Idempotency-Key": "tickets-1"})):
        assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_key_in_use")
    assert [each["version"] for each in acme.get("/datasets").json()["data"]] == [1]


def test_a_long_completion_says_so_until_it_is_done(acme: httpx.Client, rows: bytes, served: FastAPI) -> None:
    context = served.state.context
    served.state.context = replace(context, long_calls=LongCalls(wait_s=0.0))
    made = begun(acme, rows)
    assert put(made["upload"], rows).status_code == 200
    answers = [acme.post(f"/datasets/{made['id']}/complete")]

    def completed() -> bool:
        answers.append(acme.post(f"/datasets/{made['id']}/complete"))
        return answers[-1].status_code == 200

    until(completed)
    assert (answers[0].status_code, answers[0].json()["status"]) == (202, "completing")
    assert answers[-1].json()["row_count"] == ROWS
    served.state.context.long_calls.stop()


def test_rows_that_are_not_what_was_announced_become_nothing(acme: httpx.Client, rows: bytes, project: Project) -> None:
    for announced in (len(rows) - 1, len(rows) + 1):
        made = begun(acme, rows, bytes=announced)
        del made["upload"]["headers"]["Content-Length"]
        answer = put(made["upload"], rows)
        assert (answer.status_code, f"{announced} were announced" in answer.text) == (400, True)
        assert "no bytes were sent" in error_of(acme.post(f"/datasets/{made['id']}/complete"))
    for data in (b"PK\x03\x04 no rows", b'{"rating": 5}\n'):
        made = begun(acme, data)
        assert put(made["upload"], data).status_code == 200
        refused = acme.post(f"/datasets/{made['id']}/complete")
        assert (refused.status_code, "tickets.jsonl" in refused.text) == (400, True), refused.text
        assert "/tmp" not in refused.text
    assert api.list_datasets(store=project.store) == []


def test_an_upload_on_a_bucket_that_took_other_bytes_is_refused_when_it_is_completed(
    acme: httpx.Client, rows: bytes, project: Project
) -> None:
    made = begun(acme, rows)
    project.store.put(f"acme/uploads/{made['id'].removeprefix('dataset-')}/parts/content", rows + b"\n")
    refused = acme.post(f"/datasets/{made['id']}/complete")
    assert (refused.status_code, "were announced" in refused.text) == (400, True)


def test_an_address_takes_the_bytes_of_its_upload_and_is_over_with_it(
    acme: httpx.Client, asker: Asker, rows: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = begun(acme, rows), begun(acme, rows, name="other")
    url, signed = first["upload"]["url"].split("?")
    query = dict(each.split("=") for each in signed.split("&"))
    globex = asker("globex", "member")
    for changes in ({"tenant": "globex"}, {"expires": "9999999999"}, {"signature": "0" * 64}, {"signature": ""}):
        assert httpx.put(f"{url}?{urlencode({**query, **changes})}", content=rows).status_code == 403, changes
    other = second["upload"]["url"].split("?")[0]
    assert httpx.put(f"{other}?{signed}", content=rows).status_code == 403
    for path in (f"/datasets/{first['id']}", f"/datasets/{first['id']}/complete"):
        answer = globex.post(path) if path.endswith("complete") else globex.get(path)
        assert answer.status_code == 404
    # Of files in parts it is none.
    as_file = first["id"].replace("dataset-", "upload_")
    assert acme.post(f"/uploads/{as_file}/cancel").status_code == 404
    now = time.time()
    with monkeypatch.context() as later:
        later.setattr(links.time, "time", lambda: now + 901)
        over = put(first["upload"], rows)
        assert (over.status_code, "Announce the upload again" in over.text) == (403, True)
    assert put(second["upload"], rows).status_code == 200
    assert acme.post(f"/datasets/{second['id']}/complete").status_code == 200
    assert put(second["upload"], rows).status_code == 400


def test_what_was_sent_and_never_completed_is_removed_after_an_hour_and_a_version_stays(
    acme: httpx.Client, rows: bytes, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, kept = begun(acme, rows), begun(acme, rows, name="kept")
    for made in (left, kept):
        assert put(made["upload"], rows).status_code == 200
    assert acme.post(f"/datasets/{kept['id']}/complete").status_code == 200
    late = f"acme/uploads/{kept['id'].removeprefix('dataset-')}/parts/content"
    erased = f"gone/uploads/{kept['id'].removeprefix('dataset-')}/parts/content"
    # As a bucket takes them while an address is valid, whatever became of its upload and its tenant.
    for path in (late, erased):
        project.store.put(path, rows)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + LIFETIME_S + 60)
    api.end_expired_uploads(store=project.store)
    assert [each.path for each in project.store.entries("acme/uploads") if "/parts/" in each.path] == []
    assert list(project.store.entries("gone")) == []
    assert acme.get(f"/datasets/{left['id']}").json()["status"] == "expired"
    assert "is expired" in error_of(acme.post(f"/datasets/{left['id']}/complete"))
    assert acme.get(f"/datasets/{kept['id']}").json()["row_count"] == ROWS


def test_curation_and_packs_tell_what_they_counted_and_the_report_opens(
    acme: httpx.Client, rows: bytes, project: Project
) -> None:
    key = acme.post("/datasets", data={"name": "tickets"}, files={"file": ("tickets.jsonl", rows)}).json()["id"]
    artifacts = Artifacts(project.store)
    duplicates = [{"action": "removed", "count": 3}, {"action": "warned", "count": 50}]
    tests = [{"action": "removed", "count": 2}, {"action": "warned", "count": 5}]
    steps = [{"step": "duplicates", "findings": duplicates}, {"step": "contamination", "findings": tests}]
    report = {"report/report.json": canonical_json({"steps": steps}), "report/report.html": b"<p>rows"}
    facts = {"form": "preference", "held": [], "rows": {"train": 120, "validation": 20, "holdout": 15}}
    curated = leave(artifacts, identity.dataset_request(artifacts, key), report, facts)

    def made(asset: str, inputs: dict[str, InputRef], facts: dict[str, Any]) -> Artifact:
        request = WorkRequest(
            asset=asset, tenant="acme", code_version="1", inputs=inputs, params={}, label=f"{asset} {facts}"
        )
        return leave(artifacts, request, {"x": canonical_json(facts)}, facts)

    base = made("base_model", {}, {"source": SOURCE, "revision": REVISION})
    made("token_pack", {"dataset": curated.ref, "base": base.ref}, {"tokens": 4000})
    made("token_pack", {"dataset": base.ref, "base": base.ref}, {"tokens": 7})
    shown = acme.get(f"/datasets/{key}").json()
    expected = {
        "status": "accepted",
        "format": "preference",
        "row_count": ROWS,
        "rows": {"train": 120, "validation": 20, "holdout": 15},
        "dedup_removed": 3,
        "contamination_flagged": 7,
        "token_count": {f"{SOURCE}@{REVISION}": 4000},
    }
    assert {name: shown[name] for name in expected} == expected
    # A browser has no key.
    assert httpx.get(shown["report"]).text == "<p>rows"


def test_a_viewer_looks_and_a_stranger_does_not(asker: Asker, rows: bytes, url: str) -> None:
    viewer = asker("acme", "viewer")
    assert viewer.get("/datasets").status_code == 200
    assert viewer.post("/datasets", json={"name": "a", "filename": "a.jsonl", "bytes": 1}).status_code == 403
    assert viewer.post("/datasets", data={"name": "a"}, files={"file": ("a.jsonl", rows)}).status_code == 403
    for method, path in (("GET", ""), ("POST", ""), ("GET", "/acme.a.v1"), ("POST", "/acme.a.v1/complete")):
        assert httpx.request(method, f"{url}/datasets{path}").status_code == 401
