"""The HTTP API on a project in a temporary folder, spoken to by OpenAI's own client over a socket."""

import functools
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import yaml
from fastapi import FastAPI
from httpx._config import DEFAULT_TIMEOUT_CONFIG, create_ssl_context
from openai import OpenAI

from ft_assets import api
from ft_assets.records.submissions import Submission, find_submission
from ft_assets.server.app import api_app
from ft_resources.database import Database
from ft_resources.serving.fleet import Fleet
from tests.cli.conftest import project as project
from tests.clock import Clock
from tests.described_answers import answers_as_described
from tests.e2e.project import Project
from tests.listening import listening

Client = Callable[..., OpenAI]
Asker = Callable[..., httpx.Client]
# Tests ask with httpx's own limit of 5 s, which says nothing of a server whose machine does other things too.
DEFAULT_TIMEOUT_CONFIG.read = 600.0


def _shared_context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    if verify is not True or cert is not None:
        return create_ssl_context(verify, cert, trust_env)
    return _usual_context(trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.cache
def _usual_context(trust_env: bool, *named: str | None) -> ssl.SSLContext:
    return create_ssl_context(trust_env=trust_env)


# Each client reads all certificates of the world, in a fortieth of a second, to speak to a socket without TLS.
for each in (httpx, httpx2):
    each._transports.default.create_ssl_context = _shared_context


@pytest.fixture
def access(project: Project) -> Iterator[api.Access]:
    state = project.folder / "state"
    state.mkdir(exist_ok=True)
    (state / "access.db").write_bytes(_migrated())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Database, "_migrate", lambda _: None)
        database = api.open_access()
    yield database
    database.close()


@functools.cache
def _migrated() -> bytes:
    """An access database without a key."""
    with tempfile.TemporaryDirectory() as folder:
        api.open_access(f"sqlite:///{folder}/access.db").close()
        return Path(folder, "access.db").read_bytes()


@pytest.fixture
def fleet() -> Fleet | None:
    """The servers of models; none here."""
    return None


@pytest.fixture
def ages() -> Clock:
    """By which the server knows how old is what it looked up of models, in a test that moves it."""
    return Clock()


@pytest.fixture
def served(
    project: Project,
    access: api.Access,
    fleet: Fleet | None,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[FastAPI]:
    """The application, over a catalogue of one model; each of its answers has to be as it is described."""
    offer_models(project)
    monkeypatch.setenv("FT_MODELS", str(project.folder / "models.yaml"))
    clock = request.getfixturevalue("ages") if "ages" in request.fixturenames else time.monotonic
    app = api_app(project.store, access, orchestrator=Nobody(), fleet=fleet, clock=clock)
    with answers_as_described(app):
        yield app


def offer_models(project: Project, description: str = "Colours.") -> None:
    """A catalogue of one model."""
    (project.folder / "models.yaml").write_text(_models(description))


@functools.cache
def _models(description: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        recipe = yaml.safe_load(Project(folder=Path(folder), store_url="").recipe().read_text())
    own = {name: value for name, value in recipe.items() if name not in ("key", "base", "method")}
    return yaml.safe_dump({"models": {"tiny": {"base": "folder:./base", "description": description, "recipe": own}}})


class Nobody:
    """Runs nothing and shows nothing."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_, **__: 0


@pytest.fixture
def url(served: FastAPI) -> Iterator[str]:
    with listening(served) as address:
        yield f"{address}/v1"


@pytest.fixture
def asker(url: str, access: api.Access) -> Iterator[Asker]:
    """Makes a client of HTTP with a key of its own, or with ``text``, for addresses ``below`` that of the API."""
    opened: list[httpx.Client] = []

    def make(tenant: str = "acme", role: api.Role = "member", *, below: str = "", text: str = "") -> httpx.Client:
        key = text or api.create_key(tenant, role=role, name="bea", access=access, actor="root")[1]
        opened.append(httpx.Client(base_url=f"{url}{below}", headers={"authorization": f"Bearer {key}"}))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


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


def until(there: Callable[[], Any], most_s: float = 600.0) -> Any:
    """What ``there`` gives once it gives something."""
    end = time.monotonic() + most_s
    while not (found := there()):
        assert time.monotonic() < end, "it never came"
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
