"""The console's application, which the server has at ``/console``."""

import logging

from fastapi import FastAPI, Request
from starlette.datastructures import MutableHeaders
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    row_step,
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
    row_step,
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
    app.add_middleware(_Guard)
    return app


class _Guard:
    """Changes come from the console's own pages only, whatever the endpoint; every answer has the headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, began = Request(scope), False

        async def with_headers(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if request.method not in _READS and not is_same_origin(request):
            refused = failure(
                request, 403, "this was not sent by a page of the console", remedy="Open the console and do it there."
            )
            await refused(scope, receive, with_headers)
            return
        try:
            await self._app(scope, receive, with_headers)
        except Exception:
            if began:
                raise
            _LOG.exception("%s %s failed", request.method, request.url.path)
            said = failure(request, 500, "The server failed.", remedy="The operator's log says why.")
            await said(scope, receive, with_headers)
