"""Compares what a server answers with what its OpenAPI description says of that answer."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI
from jsonschema import Draft202012Validator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_DESCRIPTION: dict[str, Any] = {}
_CHECKS: dict[tuple[str, str, int], Draft202012Validator | None] = {}


def description_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description of ``app``: made once, as it takes a second and is the same for every application of the
    server."""
    if not _DESCRIPTION:
        _DESCRIPTION.update(app.openapi())
    return _DESCRIPTION


@contextmanager
def answers_as_described(app: FastAPI) -> Iterator[None]:
    """Raise AssertionError at the end where ``app``, an application of the server, answered something else."""
    wrong: list[str] = []
    app.add_middleware(_Compared, described=app, wrong=wrong)
    yield
    assert not wrong, wrong


class _Compared:
    def __init__(self, app: ASGIApp, described: FastAPI, wrong: list[str]) -> None:
        self._app, self._described, self._wrong = app, described, wrong

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, is_json, body = 0, False, b""

        async def noted(message: Message) -> None:
            nonlocal status, is_json, body
            if message["type"] == "http.response.start":
                status, is_json = message["status"], (b"content-type", b"application/json") in message["headers"]
            elif is_json:
                body += message.get("body", b"")
            await send(message)

        await self._app(scope, receive, noted)
        route = scope.get("route")
        if is_json and body and route is not None:
            check = self._check(scope["method"].lower(), route.path_format, status)
            found = check.iter_errors(json.loads(body)) if check else ()
            self._wrong += [f"{scope['method']} {route.path_format}: {each.json_path} {each.message}" for each in found]

    def _check(self, method: str, path: str, status: int) -> Draft202012Validator | None:
        key = (method, path, status)
        if key not in _CHECKS:
            _CHECKS[key] = _made(description_of(self._described), *key)
        return _CHECKS[key]


def _made(described: dict[str, Any], method: str, path: str, status: int) -> Draft202012Validator | None:
    """The check of an answer; None where nothing is said of it."""
    answers = described["paths"].get(path, {}).get(method, {}).get("responses", {})
    found = answers.get(str(status)) or answers.get(f"{status // 100}XX", {})
    schema = found.get("content", {}).get("application/json", {}).get("schema")
    return Draft202012Validator({**schema, "components": described["components"]}) if schema else None
