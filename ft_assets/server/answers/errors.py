"""Errors, and the description with them: FastAPI's own says 422 where this server answers 400."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from ft_assets.server.answers.base import Object

_MODEL = "#/components/schemas/{model}"
_FASTAPIS = ("HTTPValidationError", "ValidationError")
_SAID = {
    "400": "The request is invalid or cannot be fulfilled.",
    "4XX": "Authentication failed (401), permission denied (403), not found (404), or rate limit exceeded (429).",
    "5XX": "The server, its store or a model server failed.",
}


class OwnError(Object):
    """The error as the platform's function raised it, for `ft`."""

    kind: str
    what: str
    where: str
    remedy: str


class ErrorDetail(Object):
    """What is wrong, and with which parameter."""

    message: str
    type: str
    param: str | None
    code: str | None
    ft: OwnError | None = None


class Error(Object):
    """The body of every error."""

    error: ErrorDetail


def describe(app: FastAPI) -> None:
    """Let ``app`` describe itself with the errors that it answers with."""

    def openapi() -> dict[str, Any]:
        if not app.openapi_schema:
            made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            app.openapi_schema = _with_errors(made)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _with_errors(made: dict[str, Any]) -> dict[str, Any]:
    schemas = made["components"]["schemas"]
    for name in _FASTAPIS:
        schemas.pop(name, None)
    own = Error.model_json_schema(mode="serialization", ref_template=_MODEL)
    schemas |= own.pop("$defs")
    schemas["Error"] = own
    body = {"application/json": {"schema": {"$ref": _MODEL.format(model="Error")}}}
    for methods in made["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            _keep_reference(operation["responses"]["200"])
            for status, words in _SAID.items():
                operation["responses"].setdefault(status, {"description": words, "content": body})
    return made


def _keep_reference(answer: dict[str, Any]) -> None:
    """Of a described answer, without the ``dict[str, Any]`` that its function says it returns."""
    body = answer.get("content", {}).get("application/json", {})
    if "$ref" in body.get("schema", {}):
        body["schema"] = {"$ref": body["schema"]["$ref"]}
