"""Whatever is sent, the server answers; what it answers to a mistake is an error object."""

from collections import Counter

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ft_resources.artifacts import Artifact
from tests.cli.test_lines import adapters as adapters
from tests.control.lines.promotable import LINE
from tests.described_answers import description_of
from tests.e2e.project import Project
from tests.server.odd_requests import OddRequests
from tests.server.test_strangers import asked as asked
from tests.server.test_strangers import live


@pytest.mark.statistics
@pytest.mark.parametrize("requests", [300, pytest.param(2_000, marks=pytest.mark.long)])
def test_no_request_makes_the_server_fail(
    requests: int, adapters: list[Artifact], asked: dict[str, TestClient], served: FastAPI, project: Project
) -> None:
    """`python -m benchmarks server requests=20000` sends more of them, to a server of its own."""
    acme = asked["acme"]
    live(acme, project, adapters)
    jobs = [job["id"] for job in acme.get("/v1/fine_tuning/jobs").json()["data"]]
    files = [file["id"] for file in acme.get("/v1/files").json()["data"]]
    cancelled = [job for job in jobs if acme.get(f"/v1/fine_tuning/jobs/{job}").json()["status"] == "cancelled"]
    known = [*cancelled, *files, LINE, "tiny", *(str(adapter.address) for adapter in adapters)]
    statuses: Counter[int] = Counter()
    for request in OddRequests(description_of(served), known, seed=20261124).requests(requests):
        answer = acme.request(request.method, request.target, headers=request.encoded_headers, content=request.content)
        statuses[answer.status_code] += 1
        assert answer.status_code < 500, request
        if answer.status_code >= 400 and request.method != "HEAD" and request.target.startswith("/v1/"):
            assert answer.json()["error"].keys() >= {"message", "type", "param", "code"}, (request, answer.text)
    # Requests that are all turned away at the first look would show nothing.
    assert statuses[200] > requests / 20
    assert statuses[400] > requests / 20
