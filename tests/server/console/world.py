"""A served console over a project of its own, and people in front of it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from ft_assets import api
from ft_assets.records.submissions import find_submission
from ft_assets.server.app import api_app
from ft_assets.server.context import Context
from ft_resources.artifacts import Artifacts
from tests.e2e.project import Project, make_project
from tests.listening import listening
from tests.server.chat_world import OwnFleet
from tests.server.conftest import Nobody, offer_models, until
from tests.server.console.fake_training import FakeTraining

_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


class Someone:
    """A person: what their browser gets and sends."""

    def __init__(self, client: httpx.Client, key: str) -> None:
        self.client, self.key = client, key

    def sign_in(self) -> "Someone":
        answer = self.client.post("/console/sign-in", data={"key": self.key}, headers=self.own)
        assert answer.status_code == 303, answer.text
        return self

    @property
    def own(self) -> dict[str, str]:
        """What a browser says of a form of the same site."""
        return {"origin": str(self.client.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}

    @property
    def token(self) -> str:
        found = _TOKEN.search(self.client.get("/console/jobs").text)
        assert found is not None
        return found[1]

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.client.get(f"/console/{path}", **more)

    def send(self, path: str, files: Any = None, **fields: str) -> httpx.Response:
        """A form of one of their pages."""
        data = {"form_token": self.token, **fields}
        return self.client.post(f"/console/{path}", data=data, files=files, headers=self.own)

    def upload(self, path: Path) -> str:
        """The id of an uploaded file."""
        answer = self.send("files", files={"file": (path.name, path.read_bytes())})
        assert answer.status_code == 303, answer.text
        return answer.headers["location"].partition("=")[2]

    def start(self, file: str, name: str, **fields: str) -> str:
        """The id of a job whose files were looked at."""
        sent = {"file": file, "base": "tiny", "method": "sft", "name": name, "key": f"{name} {file}", **fields}
        answer = self.send("new/start", **sent)
        assert answer.status_code == 303, answer.text
        job: str = answer.headers["location"].rpartition("/")[2]
        until(lambda: "validating" not in self.get(f"jobs/{job}/live").text)
        return job


@dataclass
class World:
    """The project, the address of its server, who has keys, and the fleet of model servers, which is empty at first."""

    project: Project
    access: api.Access
    url: str
    context: Context
    fleet: OwnFleet
    opened: list[httpx.Client] = field(default_factory=list)

    def key(self, tenant: str = "acme", role: api.Role = "member", name: str = "ann") -> str:
        return api.create_key(tenant, role=role, name=name, access=self.access, actor="root")[1]

    def person(self, tenant: str = "acme", role: api.Role = "member", *, signed_in: bool = True) -> Someone:
        self.opened.append(httpx.Client(base_url=self.url))
        someone = Someone(self.opened[-1], self.key(tenant, role))
        return someone.sign_in() if signed_in else someone

    def training(self, job: str, tenant: str = "acme") -> FakeTraining:
        """The work of a job."""
        state = api.job_state(tenant, job.removeprefix("ftjob-"), store=self.project.store)
        assert state.settled is not None
        submission = find_submission(self.project.store, tenant, state.settled.submission)
        assert submission is not None, state.settled.error
        return FakeTraining(self.project.store, submission)


@contextmanager
def open_world(folder: Path) -> Iterator[World]:
    """A server over a new project in ``folder``, with a catalogue of one model."""
    with pytest.MonkeyPatch.context() as patch:
        project = make_project(folder)
        for name, value in {
            "DAGSTER_HOME": folder,
            "FT_STATE": folder / "state",
            "FT_STORE": project.store_url,
            "FT_CACHE": folder / "cache",
            "FT_TENANTS": folder / "tenants.yaml",
            "FT_MODELS": folder / "models.yaml",
            "FT_TRACKING": "off",
        }.items():
            patch.setenv(name, str(value))
        patch.chdir(folder)
        offer_models(project, "Two layers that know colours.")
        access = api.open_access()
        fleet = OwnFleet(Artifacts(project.store), "")
        app = api_app(project.store, access, orchestrator=Nobody(), fleet=fleet)
        with listening(app) as url:
            world = World(project, access, url, app.state.context, fleet)
            yield world
            for each in world.opened:
                each.close()
        access.close()
