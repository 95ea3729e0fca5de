"""What an attack on the API found: each would leak, lose or stop something, and does not."""

import socket
import threading
import time
from typing import Any

import httpx
import openai
import pytest
from fastapi import FastAPI

from ft_assets import api
from ft_assets.api import jobs as jobs_of_api
from ft_assets.records.submissions import all_submissions, find_outcome
from ft_assets.server.errors import told
from ft_resources.errors import DatabaseRefusal, DatabaseUnavailable, StoreRefusal, StoreUnavailable, UserError
from tests.e2e.project import Project
from tests.server.conftest import Asker, Client, Nobody, settled, until, upload


@pytest.fixture
def http(asker: Asker) -> httpx.Client:
    return asker(role="admin")


def test_no_recipe_of_another_tenant_is_named(project: Project, client: Client, http: httpx.Client) -> None:
    globex = client("globex")
    job = globex.fine_tuning.jobs.create(model="tiny", training_file=upload(globex, project.dataset()))
    recipe = settled(globex, job.id).model_extra["ft"]["recipe"]
    for name in ("nothing.v1", recipe.replace("globex.", "acme."), recipe[:-4] + "x.v1"):
        said = http.post("/ft/estimate", json={"dataset": "acme.x.v1", "recipe": name})
        assert (said.status_code, "globex.tiny" in said.text and "globex" not in name) == (404, False)
    project.store.put("names/recipe/globex.broken.v1.json", b"{")
    assert http.get("/ft/recipes").json()["data"] == []


def test_a_job_that_is_cancelled_while_its_files_are_looked_at_trains_nothing(
    project: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme, submit = client(), jobs_of_api.submit
    reached, cancelled = threading.Event(), threading.Event()

    def submit_late(*arguments: Any, **options: Any) -> Any:
        reached.set()
        assert cancelled.wait(600)
        return submit(*arguments, **options)

    monkeypatch.setattr(jobs_of_api, "submit", submit_late)
    job = acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset()))
    assert reached.wait(600)
    assert acme.fine_tuning.jobs.cancel(job.id).status == "cancelled"
    cancelled.set()
    stored = api.job_state("acme", job.id.removeprefix("ftjob-"), store=project.store).job
    api.settle_job(stored, store=project.store, orchestrator=Nobody())
    (submission,) = until(lambda: all_submissions(project.store, "acme"))
    assert until(lambda: find_outcome(project.store, submission)).status == "cancelled"
    assert list(project.store.entries("open_jobs")) == []


def test_two_servers_at_one_job_agree(project: Project, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    acme = client()
    monkeypatch.setattr("ft_assets.server.settling.Settling.add", lambda *_: None)
    file = upload(acme, project.dataset())
    job = acme.fine_tuning.jobs.create(model="tiny", training_file=file)
    stored = api.job_state("acme", job.id.removeprefix("ftjob-"), store=project.store).job
    # The first one dies between its submission and the job's record; the file is gone when the second one comes.
    monkeypatch.setattr(jobs_of_api.jobs, "settle", _die)
    with pytest.raises(StoreUnavailable):
        api.settle_job(stored, store=project.store, orchestrator=Nobody())
    monkeypatch.undo()
    acme.files.delete(file)
    (submission,) = all_submissions(project.store, "acme")
    assert api.settle_job(stored, store=project.store, orchestrator=Nobody()).submission == submission.id


def _die(*_: Any) -> None:
    raise StoreUnavailable("gone")


def test_an_operator_s_mistake_is_neither_told_nor_the_job_s_end(
    project: Project, client: Client, http: httpx.Client
) -> None:
    acme, models = client(), project.folder / "models.yaml"
    file, good = upload(acme, project.dataset()), models.read_text()
    body = {"model": "tiny", "training_file": file}
    models.write_text("models: {")
    for answer in (http.post("/fine_tuning/jobs", json=body), http.get("/models")):
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "misconfigured")
        assert str(project.folder) not in answer.text
    models.write_text(good)
    (project.folder / "tenants.yaml").write_text("tenants: [")
    answer = http.get("/files")
    assert (answer.status_code, "yaml" in answer.text) == (503, False)
    (project.folder / "tenants.yaml").write_text("{}")
    assert settled(acme, acme.fine_tuning.jobs.create(**body).id).status == "queued"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreUnavailable("it has a fault"), "store_unavailable"),
        (StoreRefusal("it is full"), "misconfigured"),
        (DatabaseUnavailable("it is starting"), "database_unavailable"),
        (DatabaseRefusal("it lacks a right"), "misconfigured"),
    ],
)
def test_what_no_new_try_mends_is_not_told_as_an_outage(error: UserError, code: str) -> None:
    assert told(error)["error"]["code"] == code


def test_a_base_folder_that_changes_makes_another_recipe(project: Project, client: Client) -> None:
    acme = client()
    file, recipes = upload(acme, project.dataset()), []
    for seed in (1, 1):
        job = settled(
            acme,
            acme.fine_tuning.jobs.create(
                model="tiny", training_file=file, seed=seed, extra_headers={"Idempotency-Key": f"k{len(recipes)}"}
            ).id,
        )
        assert job.status == "queued", job.error
        recipes.append(job.model_extra["ft"]["recipe"])
        card = project.folder / "base" / "generation_config.json"
        card.write_text(card.read_text() + " ")
    assert len(set(recipes)) == 2


@pytest.mark.parametrize(
    "given",
    ['{"n_epochs": "\\ud800"}', '{"learning_rate_multiplier": 1e-320}',
     '{"learning_rate_multiplier": true}', '{"learning_rate_multiplier": 1' + "0" * 400 + "}", '{"n_epochs": true}',
     '{"a": ' + "[" * 300 + "]" * 300 + "}", '{"evil": {"x": 1}}'],
)  # fmt: skip
def test_odd_hyperparameters_are_refused(project: Project, client: Client, http: httpx.Client, given: str) -> None:
    file = upload(client(), project.dataset())
    body = f'{{"model": "tiny", "training_file": "{file}", "hyperparameters": {given}}}'
    answer = http.post("/fine_tuning/jobs", content=body.encode(), headers={"content-type": "application/json"})
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert http.get("/fine_tuning/jobs").json()["data"] == []


def test_a_long_body_is_refused_before_it_is_read(http: httpx.Client) -> None:
    answer = http.post("/fine_tuning/jobs", content=b"[" + b"1," * (1 << 20) + b"1]")
    assert (answer.status_code, answer.json()["error"]["message"]) == (413, "The body is over 1 MiB.")


def test_idle_uploads_stop_nobody_else(project: Project, http: httpx.Client, url: str) -> None:
    address, key = httpx.URL(url), http.headers["authorization"]
    head = f"POST /v1/files HTTP/1.1\r\nHost: a\r\nAuthorization: {key}\r\nContent-Length: 1000\r\n"
    idle = [socket.create_connection((address.host, address.port)) for _ in range(45)]
    for each in idle:
        each.sendall(f"{head}Content-Type: multipart/form-data; boundary=b\r\n\r\n--b".encode())
    assert http.get("/files").status_code == 200
    answer = http.post("/files", files={"file": ("a.jsonl", b"{}")}, data={"purpose": "fine-tune"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    for each in idle:
        each.close()


def test_a_key_keeps_its_job_and_a_cancelled_one_is_asked_for_again(project: Project, client: Client) -> None:
    acme = client()
    file = upload(acme, project.dataset())
    kept = {"model": "tiny", "training_file": file, "extra_headers": {"Idempotency-Key": "mine"}}
    first = settled(acme, acme.fine_tuning.jobs.create(**kept).id)
    plain = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=file, seed=3).id)
    assert acme.fine_tuning.jobs.create(model="tiny", training_file=file, seed=3).id == plain.id
    acme.files.delete(file)
    assert acme.fine_tuning.jobs.create(**kept).id == first.id


def test_a_wrong_job_may_be_sent_again_once_it_was_told(project: Project, client: Client) -> None:
    acme = client()
    wrong = acme.files.create(file=("a.jsonl", b'{"messages": 1}\n'), purpose="fine-tune").id
    first = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=wrong).id)
    assert first.status == "failed"
    assert acme.fine_tuning.jobs.create(model="tiny", training_file=wrong).id != first.id


def test_what_fails_in_us_is_in_the_log_with_its_number(
    http: httpx.Client, served: FastAPI, access: api.Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ft_assets.api.jobs.job_ids", lambda *_, **__: 1 / 0)
    answer = http.get("/fine_tuning/jobs")
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "server_error")
    assert answer.headers["x-request-id"].startswith("req_")
    http.delete("/files/a%00b")
    assert [entry.path for entry in api.audit("acme", access=access)] == ["/v1/files/a%00b"]


def test_an_erased_tenant_s_keys_open_nothing(project: Project, client: Client) -> None:
    acme = client()
    upload(acme, project.dataset())
    api.erase_tenant("acme", reason="left", store=project.store, actor="root")
    with pytest.raises(openai.AuthenticationError, match="was erased"):
        acme.files.list()


def test_an_expired_file_is_not_there_and_can_be_deleted(
    project: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = client()
    with project.dataset().open("rb") as rows:
        expires = {"anchor": "created_at", "seconds": 3600}
        file = acme.files.create(file=rows, purpose="fine-tune", expires_after=expires).id
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3601)
    with pytest.raises(openai.NotFoundError):
        acme.files.retrieve(file)
    assert list(acme.files.list()) == []
    assert acme.files.delete(file).deleted
    assert list(project.store.entries("acme/files")) == []


def test_a_slash_too_many_leads_nowhere_else(http: httpx.Client) -> None:
    answer = http.get("/files/", headers={"host": "evil.example"})
    assert (answer.status_code, "evil" in str(answer.headers)) == (404, False)
