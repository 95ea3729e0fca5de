"""Numbers every request, and writes into the audit log what changed something, or was refused for who asked."""

import logging
import uuid

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ft_assets.api import ApiRequest
from ft_assets.server.context import context_of
from ft_assets.server.errors import own_error
from ft_assets.server.rate_limits import peer_of, tell

_LOG = logging.getLogger(__name__)
_READS = ("GET", "HEAD", "OPTIONS")
_REFUSED = (401, 403)
# Nothing was changed and nobody refused for who it was; whoever asks too much must not fill the log.
_TOO_MUCH = 429


class Audit:
    """Middleware around everything that answers requests of ``app``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, number = Request(scope), f"req_{uuid.uuid4().hex}"
        began = False

        async def noted(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = number
                tell(request, headers)
                await _noted(request, message["status"], number)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception:
            if began:
                raise
            _LOG.exception("%s %s failed, request %s", request.method, request.url.path, number)
            await own_error()(scope, receive, noted)


async def _noted(request: Request, status: int, number: str) -> None:
    # A sign-in elsewhere ends by a GET.
    reads = request.method in _READS or getattr(request.state, "reads", False)
    changed = not reads or getattr(request.state, "noted", False)
    if status in _REFUSED or (changed and status != _TOO_MUCH):
        await run_in_threadpool(_note, request, status, number)


def _note(request: Request, status: int, number: str) -> None:
    caller = getattr(request.state, "caller", None)
    asked = ApiRequest(
        tenant=caller.tenant if caller else "",
        actor=caller.actor if caller else "",
        peer=peer_of(request),
        method=request.method,
        path=request.url.path.replace("\0", "%00"),
        status=status,
        request=number,
    )
    try:
        context_of(request).access.note(asked)
    except Exception:
        # The request was carried out: its own record in the store says by whom.
        _LOG.exception("not in the audit log: %s", asked)
