"""Every wrong request has its error object; nothing it sent is kept."""

from typing import Any

import httpx
import pytest

from tests.e2e.project import Project
from tests.server.conftest import Asker, Client, settled, upload

ROW = b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'


@pytest.fixture
def http(asker: Asker) -> httpx.Client:
    return asker()


def error_of(response: httpx.Response) -> tuple[int, str | None, str | None, str]:
    """Status, param, code and message of an error."""
    error = response.json()["error"]
    assert response.json().keys() == {"error"}
    assert error.keys() == {"message", "type", "param", "code"}
    assert response.headers["x-request-id"].startswith("req_")
    return response.status_code, error["param"], error["code"], error["message"]


JOBS: list[tuple[dict[str, Any], int, str | None, str, str]] = [
    ({}, 400, "model", "missing_required_parameter", "is missing."),
    ({"model": "tiny"}, 400, "training_file", "missing_required_parameter", "is missing."),
    ({"model": "gpt-9", "training_file": "FILE"}, 404, "model", "not_found", "no model 'gpt-9' to fine-tune"),
    ({"model": "tiny", "training_file": "file-none"}, 404, "training_file", "not_found", "no file file-none"),
    ({"model": "tiny", "training_file": "../../x"}, 404, "training_file", "not_found", "no file or dataset"),
    ({"model": "tiny", "training_file": "FILE", "validation_file": "x"}, 404, "validation_file",
     "not_found", "no file"),
    ({"model": "tiny", "training_file": "FILE", "suffix": "Ä"}, 400, "suffix", "invalid_value", "cannot be a suffix"),
    ({"model": "tiny", "training_file": "FILE", "nepochs": 3}, 400, "nepochs", "unknown_parameter", "leave it out"),
    ({"model": "tiny", "training_file": "FILE", "seed": -1}, 400, "seed", "invalid_value", "at least 0"),
    ({"model": "tiny", "training_file": "FILE", "integrations": [{"type": "wandb"}]}, 400, "integrations",
     "invalid_value", "send it empty"),
    ({"model": "tiny", "training_file": "FILE", "method": {"type": "reinforcement"}}, 400, "method.type",
     "invalid_value", "'supervised', 'lora'"),
    ({"model": "tiny", "training_file": "FILE", "hyperparameters": {"n_epochs": 0}}, 400, "hyperparameters",
     "invalid_value", "n_epochs: should be at least 1 or 'auto', not 0"),
    ({"model": "tiny", "training_file": "FILE",
      "method": {"type": "supervised", "dpo": {"hyperparameters": {"beta": 0.5}}}}, 400, "method.dpo", "invalid_value",
     "Send them in method.supervised"),
    ({"model": "tiny", "training_file": "FILE", "hyperparameters": {"epochs": 1}}, 400, "hyperparameters",
     "invalid_value", "epochs"),
    ({"model": "tiny", "training_file": "FILE", "hyperparameters": {"beta": 0.1}}, 400, "hyperparameters.beta",
     "invalid_value", "belongs to the methods dpo"),
    ({"model": "tiny", "training_file": "FILE", "recipe": "globex.own.v1"}, 404, "recipe", "not_found", "no recipe"),
    ({"model": "tiny", "training_file": "FILE", "metadata": {"a": "b" * 513}}, 400, "metadata.a", "invalid_value",
     "at most 512"),
    ({"model": "tiny", "training_file": "FILE", "max_gpu_hours": 0}, 400, "max_gpu_hours", "invalid_value",
     "more than 0"),
]  # fmt: skip


def test_a_wrong_job_is_refused_by_its_parameter_and_leaves_nothing(
    project: Project, client: Client, http: httpx.Client
) -> None:
    file = upload(client(), project.dataset())
    for body, *expected, message in JOBS:
        sent = {name: file if value == "FILE" else value for name, value in body.items()}
        *found, said = error_of(http.post("/fine_tuning/jobs", json=sent))
        assert (found, message in said) == (expected, True), (body, found, said)
    assert http.get("/fine_tuning/jobs").json()["data"] == []
    assert list(project.store.entries("open_jobs")) == []


def test_a_body_that_is_no_json_and_an_address_that_is_none_have_error_objects(http: httpx.Client) -> None:
    status, _, code, _ = error_of(http.post("/fine_tuning/jobs", content=b"{", headers={"content-type": "text/json"}))
    assert (status, code) == (400, "invalid_value")
    assert error_of(http.get("/nothing"))[:3] == (404, None, "not_found")
    assert error_of(http.put("/files"))[:3] == (405, None, "method_not_allowed")
    assert error_of(http.get("/fine_tuning/jobs?limit=0"))[:3] == (400, "limit", "invalid_value")
    for path in ("/files/x", "/files/x/content", "/fine_tuning/jobs/x", "/fine_tuning/jobs/x/events", "/models/x"):
        assert error_of(http.get(path))[0] == 404


FILES: list[tuple[str, bytes, dict[str, str], str | None, str]] = [
    ("rows.jsonl", ROW, {"purpose": "batch"}, "purpose", "is not a purpose"),
    ("rows.jsonl", ROW, {}, "purpose", "is not a purpose"),
    ("rows.jsonl", ROW, {"purpose": "fine-tune", "expires_after[seconds]": "1"}, "expires_after", "3600"),
    ("rows.exe", ROW, {"purpose": "fine-tune"}, None, "cannot be read"),
    ("rows", ROW, {"purpose": "fine-tune"}, None, "does not end in a format"),
    ("../rows.jsonl", ROW, {"purpose": "fine-tune"}, "file", "cannot be the name"),
    ("rows.jsonl", b"\x80\x04\x95" + ROW, {"purpose": "fine-tune"}, None, "pickle"),
    ("rows.parquet", ROW, {"purpose": "fine-tune"}, None, "Parquet"),
]


def test_a_wrong_file_is_refused_and_leaves_nothing(project: Project, http: httpx.Client) -> None:
    for name, data, fields, param, message in FILES:
        status, found, _, said = error_of(http.post("/files", files={"file": (name, data)}, data=fields))
        assert (status, found, message in said) == (400, param, True), (name, fields, said)
        assert list(project.store.entries("acme")) == []


def test_two_tenants_cannot_tell_that_the_other_exists(project: Project, client: Client) -> None:
    import openai

    acme, globex = client(), client("globex")
    file = upload(acme, project.dataset())
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=file).id)
    calls: list[tuple[Any, str]] = [
        (globex.files.retrieve, file),
        (globex.files.content, file),
        (globex.files.delete, file),
        (lambda name: globex.fine_tuning.jobs.create(model="tiny", training_file=name), file),
        (globex.fine_tuning.jobs.retrieve, job.id),
        (globex.fine_tuning.jobs.cancel, job.id),
        (globex.fine_tuning.jobs.pause, job.id),
        (globex.fine_tuning.jobs.list_events, job.id),
        (globex.fine_tuning.jobs.checkpoints.list, job.id),
        (lambda name: globex.files.content(f"file-{name.removeprefix('ftjob-')}-steps"), job.id),
        (lambda name: globex.models.retrieve(f"ft:tiny:acme::{name.removeprefix('ftjob-')}"), job.id),
    ]
    unknown = "f" * 24
    for call, name in calls:
        said = []
        for asked in (name, name.partition("-")[0] + "-" + unknown):
            with pytest.raises(openai.APIStatusError) as caught:
                call(asked)
            said.append((caught.value.status_code, str(caught.value.body).replace(asked.partition("-")[2], "ID")))
        assert said[0] == said[1]
    for after in ("", file, f"file-{unknown}"):
        assert list(globex.files.list(after=after)) == []
    for after in ("", job.id, f"ftjob-{unknown}"):
        assert list(globex.fine_tuning.jobs.list(after=after)) == []
    assert [each.id for each in globex.models.list()] == ["tiny"]
    assert acme.files.retrieve(file).id == file
