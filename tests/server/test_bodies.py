"""How much of a body is read, of whom, and for how long."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from ft_assets import api
from ft_assets.server.body_limit import MOST_BYTES, STRANGERS_BYTES, BodyLimit
from tests.described_answers import description_of

KINDS = ("application/json", "multipart/form-data; boundary=b", "application/x-www-form-urlencoded", "")
UPLOADS, SIGNED = ("/v1/files", "/v1/uploads/{upload_id}/parts"), "/v1/datasets/{dataset_id}/content"
_CHUNK = b"a" * (64 << 10)
_PART = b'--b\r\nContent-Disposition: form-data; name="a"; filename="a"\r\n\r\n'
_MOST = 8 << 20


@dataclass
class Asked:
    """A request whose body goes on for 8 MiB; ``read`` is what was read of it, ``kept`` what was before an answer."""

    method: str
    path: str
    headers: dict[str, str]
    read: int = field(default=0, init=False)
    kept: int = field(default=0, init=False)
    status: int = field(default=0, init=False)
    said: bytes = field(default=b"", init=False, repr=False)

    async def of(self, app: FastAPI | BodyLimit) -> "Asked":
        names = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        scope: dict[str, Any] = {"type": "http", "method": self.method, "path": self.path, "headers": names}
        scope |= {"query_string": b"", "http_version": "1.1", "scheme": "http", "client": ("10.0.0.1", 5)}
        await app({**scope, "raw_path": self.path.encode(), "server": ("a", 80)}, self._receive, self._send)
        return self

    async def _receive(self) -> Message:
        if self.read >= _MOST:
            return {"type": "http.disconnect"}
        sent = _CHUNK if self.read else _PART + _CHUNK
        self.read += len(sent)
        return {"type": "http.request", "body": sent, "more_body": self.read < _MOST}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.kept = message["status"], self.read
        self.said += message.get("body", b"")


@dataclass
class Short(Asked):
    """A request with a body that ends."""

    body: bytes = b""

    async def _receive(self) -> Message:
        sent, self.read = (b"" if self.read else self.body), 1
        return {"type": "http.request", "body": sent, "more_body": False}


def asked(app: FastAPI | BodyLimit, method: str, path: str, **headers: str) -> Asked:
    sent = {name.replace("_", "-"): value for name, value in headers.items() if value}
    return asyncio.run(Asked(method, path, sent).of(app))


@pytest.fixture
def addresses(served: FastAPI) -> list[tuple[str, str]]:
    """Method and path of each change."""
    paths = description_of(served)["paths"].items()
    return [(method.upper(), path) for path, methods in paths for method in methods if method != "get"]


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_key_no_byte_of_a_body_is_read(kind: str, addresses: list[tuple[str, str]], served: FastAPI) -> None:
    assert len(addresses) > 30
    for method, path in addresses:
        # An upload's address is signed, and no key goes with it.
        refused = (403, 429) if path == SIGNED else (401, 429)
        for authorization in ("", "Bearer ft-none"):
            found = asked(served, method, path, content_type=kind, authorization=authorization)
            assert (found.status in refused, found.read) == (True, 0), found


@pytest.fixture
def of_a_member(access: api.Access) -> str:
    _, key = api.create_key("acme", role="admin", access=access, actor="root")
    return f"Bearer {key}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_has_a_mebibyte_read_whatever_its_kind_but_where_files_are_uploaded(
    kind: str, addresses: list[tuple[str, str]], served: FastAPI, of_a_member: str
) -> None:
    long = {"content_type": kind, "authorization": of_a_member}
    refused = []
    # A dataset comes as a form, and is announced as JSON.
    uploads = (*UPLOADS, "/v1/datasets") if kind.startswith("multipart") else UPLOADS
    for method, path in addresses:
        if path not in uploads:
            found = asked(served, method, path, **long)
            assert found.read <= MOST_BYTES + 2 * len(_CHUNK), found
            refused.append(found.status == 413)
            assert asked(served, method, path, content_length=str(1 << 40), **long).read == 0
    assert sum(refused) > 15
    if kind.startswith("multipart"):
        assert asked(served, "POST", UPLOADS[0], **long).read >= _MOST


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", ["/console/sign-in", "/console/oidc/tenant", "/console/files", "/console/jobs/a/try"])
def test_a_stranger_has_little_read_by_the_console(path: str, kind: str, served: FastAPI) -> None:
    found = asked(served, "POST", path, content_type=kind, host="a", origin="http://a")
    assert found.kept <= STRANGERS_BYTES + 2 * len(_CHUNK)
    assert found.status == (413 if found.kept else 401)
    assert bool(found.kept) == (path in ("/console/sign-in", "/console/oidc/tenant") and "form" in kind)


def test_a_body_that_does_not_come_is_waited_for_until_its_time_is_up() -> None:
    class Silent(Asked):
        async def _receive(self) -> Message:
            return await asyncio.Event().wait()  # type: ignore[return-value]

    async def reads(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()

    with pytest.raises(Exception, match="did not come within 0 seconds") as caught:
        asyncio.run(Silent("POST", "/", {}).of(BodyLimit(reads, within_s=0)))
    assert getattr(caught.value, "status_code", None) == 408


HALVES: tuple[bytes, ...] = (b'"\\ud800"', b'"a\\udfff"', b'{"\\ud83d": 1}', b"NaN", b"[" * 5000, b"\xff")


@pytest.mark.parametrize("half", HALVES)
def test_what_is_no_json_is_refused_at_every_address(
    half: bytes, addresses: list[tuple[str, str]], served: FastAPI, of_a_member: str
) -> None:
    headers = {"content-type": "application/json", "authorization": of_a_member}
    told = 0
    for method, path in addresses:
        found = asyncio.run(Short(method, path, headers, b'{"model": ' + half + b"}").of(served))
        assert 400 <= found.status < 500 or not found.read, (found, found.said)
        told += b"The body is not valid JSON" in found.said
    assert told > 15


@pytest.mark.parametrize("charset", ["utf-7", "unicode_escape", "undefined", "idna", "utf-16"])
@pytest.mark.parametrize(("path", "name"), [("/console/sign-in", "key"), ("/console/oidc/tenant", "token")])
def test_a_form_whose_encoding_makes_what_is_no_text_is_refused(
    path: str, name: str, charset: str, served: FastAPI
) -> None:
    headers = {"content-type": f"multipart/form-data; boundary=b; charset={charset}", "host": "a", "origin": "http://a"}
    part = f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n+2AA-\\ud800\r\n--b--\r\n'
    found = asyncio.run(Short("POST", path, headers, part.encode()).of(served))
    assert (found.status, b"not in UTF-8" in found.said) == (400, True)
    found = asyncio.run(Short("POST", path, {**headers, "content-type": "multipart/form-data"}, b"--").of(served))
    assert (found.status, b"form cannot be read" in found.said) == (400, True)
