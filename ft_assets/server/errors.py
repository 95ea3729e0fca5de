"""Errors as OpenAI's clients expect them: ``{"error": {"message", "type", "param", "code"}}``."""

import logging
import math
import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ft_assets.remote.calls import PREFIX as CALLS
from ft_assets.server.wording import worded
from ft_resources.errors import (
    CorruptArtifact,
    DatabaseUnavailable,
    KeyTaken,
    Misconfigured,
    NotFound,
    NotIdentified,
    NotPermitted,
    StoreUnavailable,
    TooManyRequests,
    UnknownParameter,
    UserError,
    in_sentences,
)
from ft_resources.serving.errors import BadAdapter, BadRequest, NameTaken, NoServer, ServerUnavailable, Starting

_LOG = logging.getLogger(__name__)
_ANSWERS: tuple[tuple[type[UserError], int, str, str], ...] = (
    (NotIdentified, 401, "invalid_request_error", "invalid_api_key"),
    (NotPermitted, 403, "invalid_request_error", "insufficient_permissions"),
    (NotFound, 404, "invalid_request_error", "not_found"),
    (KeyTaken, 409, "invalid_request_error", "idempotency_key_in_use"),
    (TooManyRequests, 429, "rate_limit_error", "rate_limit_exceeded"),
    (Misconfigured, 503, "server_error", "misconfigured"),
    (StoreUnavailable, 503, "server_error", "store_unavailable"),
    (DatabaseUnavailable, 503, "server_error", "database_unavailable"),
    (Starting, 503, "server_error", "model_starting"),
    (NoServer, 503, "server_error", "no_server"),
    (ServerUnavailable, 503, "server_error", "model_unavailable"),
    (UnknownParameter, 400, "invalid_request_error", "unknown_parameter"),
    (BadAdapter, 500, "server_error", "model_damaged"),
    (NameTaken, 500, "server_error", "model_damaged"),
    (CorruptArtifact, 500, "server_error", "damaged_record"),
    (UserError, 400, "invalid_request_error", "invalid_value"),
)
_OPERATORS = {
    "store_unavailable": "The store does not answer. Try again in a minute.",
    "database_unavailable": "A database does not answer. Try again in a minute.",
    "model_starting": "A server of this model is starting. Try again in a minute.",
    "no_server": "No server has this model, and none can be started now. The platform's operator can add one: with "
    "ft serve --embedded on a laptop, with FT_SERVERS on a cluster.",
    "model_unavailable": "The server of this model failed. Try again.",
    "model_damaged": "The server cannot load this model's adapter. The platform's operator can fix this.",
    "misconfigured": "The platform's configuration is invalid. Its operator can fix this.",
    "damaged_record": "A record of the platform is damaged. Its operator can fix this.",
}
_PARAM = re.compile(
    r"(model|training_file|validation_file|suffix|seed|metadata|recipe|gates|max_gpu_hours|hyperparameters|file|name|store|purpose"
    r"|method|expires_after|after|limit|bytes|part_ids|md5|data|Idempotency-Key|messages|prompt|base_model|dataset_id"
    r"|hyperparams|eval_config|idempotency_key)(\.[a-z_]+|\[\d+\])*"
)


def error_object(
    message: str, *, kind: str = "invalid_request_error", param: str = "", code: str = ""
) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": message, "type": kind, "param": param or None, "code": code or None}}


def status_of_error(error: UserError) -> int:
    """The HTTP status of an answer to what raised ``error``."""
    return _answer_to(error)[0]


def operators_words(error: UserError) -> str:
    """What a tenant is told of an error that only the platform's operator can mend."""
    return _OPERATORS[_answer_to(error)[2]]


def told(error: UserError) -> dict[str, Any]:
    """The body that tells of ``error`` in an answer that has begun."""
    status, kind, code = _answer_to(error)
    message = _OPERATORS[code] if status >= 500 else in_sentences(error.what)
    return error_object(message, kind=kind, code=code)


def _answer_to(error: UserError) -> tuple[int, str, str]:
    status, kind, code = next(answer[1:] for answer in _ANSWERS if isinstance(error, answer[0]))
    return status, kind, error.code if isinstance(error, BadRequest) else code


def add_handlers(app: FastAPI) -> None:
    """Answer every error of ``app`` in this form."""
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)


def _user_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, UserError)
    status, kind, code = _answer_to(error)
    message = in_sentences(error.what, error.remedy)
    param = error.where if _PARAM.fullmatch(error.where) or isinstance(error, UnknownParameter) else ""
    if error.where and not param and status == 400:
        message = f"{error.where}: {message}"
    headers = {}
    if status == 409:
        headers["x-should-retry"] = "false"
    elif status == 429:
        assert isinstance(error, TooManyRequests)
        headers["retry-after"] = str(math.ceil(error.retry_s))
        headers["retry-after-ms"] = str(math.ceil(error.retry_s * 1000))
    elif status >= 500:
        # Where things are, and with which words they refused, is the operator's.
        _LOG.error("%s %s: %s", request.method, request.url.path, error)
        message, headers["retry-after"] = _OPERATORS[code], "10"
    elif status == 401:
        headers["www-authenticate"] = "Bearer"
    body = error_object(message, kind=kind, param=param, code=code)
    if status < 500 and request.url.path.startswith(f"{CALLS}/"):
        # As the function raised it, for a command that shows it as such.
        body["error"]["ft"] = {"kind": type(error).__name__, "what": error.what, "where": error.where}
        body["error"]["ft"]["remedy"] = error.remedy
    return JSONResponse(body, status, headers)


def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    param, message, code = worded(error.errors(), error.body)
    return JSONResponse(error_object(message, param=param, code=code), 400)


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    messages = {404: f"There is nothing at {request.url.path}.", 405: f"{request.method} is not possible here."}
    message = messages.get(error.status_code, str(error.detail))
    codes = {404: "not_found", 405: "method_not_allowed", 408: "body_too_slow", 413: "body_too_long"}
    code = codes.get(error.status_code, "invalid_request")
    return JSONResponse(error_object(message, code=code), error.status_code, dict(error.headers or {}))


def own_error() -> JSONResponse:
    """The answer where the server itself failed."""
    return JSONResponse(error_object("The server failed. The operator's log says why.", kind="server_error"), 500)
