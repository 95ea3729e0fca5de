"""``/v1/openapi.json``: every answer of OpenAI's dialect is described, and so are the errors that there are."""

import json
from typing import Any

import httpx
import jsonschema
import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator

from ft_assets import api
from tests.described_answers import description_of

OPENAIS = (
    ("post", "/v1/files", "File"),
    ("get", "/v1/files", "Page_File_"),
    ("get", "/v1/files/{file_id}", "File"),
    ("delete", "/v1/files/{file_id}", "DeletedFile"),
    ("post", "/v1/uploads", "Upload"),
    ("post", "/v1/uploads/{upload_id}/parts", "UploadPart"),
    ("post", "/v1/uploads/{upload_id}/complete", "Upload"),
    ("post", "/v1/uploads/{upload_id}/cancel", "Upload"),
    ("post", "/v1/fine_tuning/jobs", "Job"),
    ("get", "/v1/fine_tuning/jobs", "Page_Job_"),
    ("get", "/v1/fine_tuning/jobs/{job_id}", "Job"),
    ("post", "/v1/fine_tuning/jobs/{job_id}/cancel", "Job"),
    ("post", "/v1/fine_tuning/jobs/{job_id}/pause", "Job"),
    ("post", "/v1/fine_tuning/jobs/{job_id}/resume", "Job"),
    ("get", "/v1/fine_tuning/jobs/{job_id}/events", "Page_Event_"),
    ("get", "/v1/fine_tuning/jobs/{job_id}/checkpoints", "Page_Checkpoint_"),
    ("get", "/v1/models", "Models"),
    ("get", "/v1/models/{name}", "Model"),
    ("delete", "/v1/models/{name}", "DeletedModel"),
    ("post", "/v1/chat/completions", "ChatCompletion"),
    ("post", "/v1/completions", "Completion"),
)


@pytest.fixture
def description(served: FastAPI) -> dict[str, Any]:
    return description_of(served)


def test_each_request_of_openais_dialect_says_what_it_is_answered_with(description: dict[str, Any]) -> None:
    for method, path, name in OPENAIS:
        answers = description["paths"][path][method]["responses"]
        assert answers["200"]["content"]["application/json"]["schema"] == _ref(name), path
        # What it may answer is closed: another field is another answer.
        assert description["components"]["schemas"][name]["additionalProperties"] is False, name


def test_errors_are_described_as_they_are_answered(description: dict[str, Any]) -> None:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            assert "422" not in operation["responses"], (method, path)
            for status in ("400", "4XX", "5XX"):
                found = operation["responses"][status]["content"]["application/json"]["schema"]
                assert found == _ref("Error"), (method, path)
    assert "HTTPValidationError" not in description["components"]["schemas"]


def test_all_that_is_referred_to_is_there_and_is_a_schema(description: dict[str, Any]) -> None:
    text = json.dumps(description)
    for name in {each.partition('"')[0] for each in text.split("#/components/schemas/")[1:]}:
        Draft202012Validator.check_schema(description["components"]["schemas"][name])


def test_an_answer_with_another_field_is_found(served: FastAPI, url: str, access: api.Access) -> None:
    _, key = api.create_key("acme", role="member", name="ann", access=access, actor="root")
    headers = {"authorization": f"Bearer {key}"}
    wrong = httpx.get(f"{url}/fine_tuning/jobs?limit=0", headers=headers)
    assert wrong.status_code == 400
    schemas = description_of(served)
    check = Draft202012Validator({**_ref("Error"), "components": schemas["components"]})
    check.validate(wrong.json())
    with pytest.raises(jsonschema.ValidationError, match="Additional properties"):
        check.validate({"error": {**wrong.json()["error"], "where": "limit"}})


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
