"""People at the console: each signed in with a key, over a socket, as a browser would be."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from ft_assets import api
from tests.server.conftest import access as access
from tests.server.conftest import project as project
from tests.server.conftest import served as served
from tests.server.conftest import url as url

_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


class Someone:
    """A signed-in person: what their browser gets and sends."""

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


People = Callable[..., Someone]


@pytest.fixture
def people(url: str, access: api.Access) -> Iterator[People]:
    """Signs somebody of a tenant in."""
    opened: list[httpx.Client] = []

    def make(tenant: str = "acme", role: api.Role = "member", *, signed_in: bool = True) -> Someone:
        _, key = api.create_key(tenant, role=role, name="ann", access=access, actor="root")
        opened.append(httpx.Client(base_url=url.removesuffix("/v1"), timeout=60))
        someone = Someone(opened[-1], key)
        return someone.sign_in() if signed_in else someone

    yield make
    for each in opened:
        each.close()
