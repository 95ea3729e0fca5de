"""The console's application, which the server has at ``/console``."""

import logging
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from ft_assets.server.console import (
    adapters,
    datasets,
    files,
    job_results,
    jobs,
    keys,
    lines,
    notices,
    oidc,
    report_pages,
    sign_in,
    tries,
    usage,
    wizard,
)
from ft_assets.server.console.failures import add_pages_of_errors, failure
from ft_assets.server.console.rendering import FOLDER
from ft_assets.server.console.session import is_same_origin
from ft_assets.server.context import Context

_LOG = logging.getLogger(__name__)
PARTS = (
    sign_in,
    oidc,
    jobs,
    job_results,
    files,
    wizard,
    datasets,
    report_pages,
    adapters,
    lines,
    tries,
    usage,
    notices,
    keys,
)
_READS = ("GET", "HEAD")
# A page loads its own style and script, and nothing else; nothing of it is framed, guessed at or kept.
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    # Other sites learn as little as by no-referrer, with which browsers would send forms of origin "null".
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


def console_app(context: Context) -> FastAPI:
    """The pages over what ``context`` has."""
    app = FastAPI(title="Console", redirect_slashes=False, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.context = context
    for part in PARTS:
        app.include_router(part.router)
    app.mount("/static", StaticFiles(directory=FOLDER / "static"))
    add_pages_of_errors(app)
    app.middleware("http")(_guard)
    return app


async def _guard(request: Request, answer: Any) -> Response:
    """Changes come from the console's own pages only, whatever the endpoint; every answer has the headers."""
    response: Response
    if request.method not in _READS and not is_same_origin(request):
        response = failure(
            request, 403, "this was not sent by a page of the console", remedy="Open the console and do it there."
        )
    else:
        try:
            response = await answer(request)
        except Exception:
            _LOG.exception("%s %s failed", request.method, request.url.path)
            response = failure(request, 500, "The server failed.", remedy="The operator's log says why.")
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
