"""Errors as pages: what is wrong, where, and what to do."""

import logging
import math
from http import HTTPStatus
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from ft_assets.server.console.rendering import page
from ft_assets.server.errors import operators_words, status_of_error
from ft_assets.server.wording import worded
from ft_resources.errors import NotIdentified, TooManyRequests, UserError

_LOG = logging.getLogger(__name__)


def add_pages_of_errors(app: FastAPI) -> None:
    """Answer every error of ``app`` by a page."""
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)


def failure(request: Request, status: int, what: str, *, where: str = "", remedy: str = "") -> Response:
    """The page of an error; a fragment of it where a script asked."""
    template = "fragments/failure.html" if by_script(request) else "failure.html"
    title = HTTPStatus(status).phrase
    return page(request, template, code=status, title=title, what=what, where=where, remedy=remedy)


def by_script(request: Request) -> bool:
    """Whether the console's script asked, and not a person for a page."""
    return request.headers.get("x-part") == "1"


def _user_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, UserError)
    status = status_of_error(error)
    if isinstance(error, NotIdentified) and request.method == "GET" and not by_script(request):
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/console/sign-in?next={quote(asked, safe='/')}", 303)
    if status >= 500:
        # Where things are, and with which words they refused, is the operator's.
        _LOG.error("%s %s: %s", request.method, request.url.path, error)
        return failure(request, status, operators_words(error))
    response = failure(request, status, error.what, where=error.where, remedy=error.remedy)
    if isinstance(error, TooManyRequests):
        response.headers["retry-after"] = str(math.ceil(error.retry_s))
    return response


def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    param, message, _ = worded(error.errors(), error.body)
    return failure(request, 400, message, where=param)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "There is no such page.", 405: f"{request.method} is not possible here."}
    return failure(request, error.status_code, said.get(error.status_code, str(error.detail)))
