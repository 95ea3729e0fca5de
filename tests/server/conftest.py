"""The HTTP API on a project in a temporary folder, spoken to by OpenAI's own client over a socket."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from fastapi import FastAPI
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from openai import OpenAI

from ft_assets import api
from ft_assets.records.submissions import Submission, find_submission
from ft_assets.server.app import api_app
from ft_resources.serving.fleet import Fleet
from tests.cli.conftest import project as project
from tests.described_answers import answers_as_described
from tests.e2e.project import Project

Client = Callable[..., OpenAI]
# Tests ask with httpx's own limit of 5 s, which says nothing of a server whose machine does other things too.
DEFAULT_TIMEOUT_CONFIG.read = 60.0


@pytest.fixture
def access(project: Project) -> Iterator[api.Access]:
    database = api.open_access()
    yield database
    database.close()


@pytest.fixture
def fleet() -> Fleet | None:
    """The servers of models; none here."""
    return None


@pytest.fixture
def served(
    project: Project, access: api.Access, fleet: Fleet | None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FastAPI]:
    """The application, over a catalogue of one model; each of its answers has to be as it is described."""
    recipe = yaml.safe_load(project.recipe().read_text())
    own = {name: value for name, value in recipe.items() if name not in ("key", "base", "method")}
    models = {"models": {"tiny": {"base": "folder:./base", "description": "Colours.", "recipe": own}}}
    (project.folder / "models.yaml").write_text(yaml.safe_dump(models))
    monkeypatch.setenv("FT_MODELS", str(project.folder / "models.yaml"))
    app = api_app(project.store, access, orchestrator=Nobody(), fleet=fleet)
    with answers_as_described(app):
        yield app


class Nobody:
    """Runs nothing and shows nothing."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_, **__: 0


@pytest.fixture
def url(served: FastAPI) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(served, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/v1"
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def client(url: str, access: api.Access) -> Iterator[Client]:
    """Makes OpenAI's client with a key of its own."""
    opened: list[OpenAI] = []

    def make(tenant: str = "acme", role: api.Role = "member", **settings: Any) -> OpenAI:
        _, key = api.create_key(tenant, role=role, name="ann", access=access, actor="root")
        opened.append(OpenAI(base_url=url, api_key=key, **{"max_retries": 0, **settings}))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def until(there: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What ``there`` gives once it gives something."""
    end = time.monotonic() + seconds
    while not (found := there()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
    return found


def upload(client: OpenAI, path: Path) -> str:
    """The id of an uploaded file."""
    with path.open("rb") as file:
        return client.files.create(file=file, purpose="fine-tune").id


def settled(client: OpenAI, job: str) -> Any:
    """The job, once its files were looked at."""

    def look() -> Any:
        found = client.fine_tuning.jobs.retrieve(job)
        return found if found.status != "validating_files" else None

    return until(look)


def submission_of(project: Project, job: Any, tenant: str = "acme") -> Submission:
    found = find_submission(project.store, tenant, job.model_extra["ft"]["submission"])
    assert found is not None
    return found
