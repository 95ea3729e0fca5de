"""Numbers every request, and writes into the audit log what changed something, or was refused for who asked."""

import logging
import uuid
from typing import Any

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool

from ft_assets.api import ApiRequest
from ft_assets.server.context import context_of
from ft_assets.server.errors import own_error
from ft_assets.server.rate_limits import peer_of, tell

_LOG = logging.getLogger(__name__)
_READS = ("GET", "HEAD", "OPTIONS")
_REFUSED = (401, 403)
# Nothing was changed and nobody refused for who it was; whoever asks too much must not fill the log.
_TOO_MUCH = 429


def add_audit(app: FastAPI) -> None:
    @app.middleware("http")
    async def noted(request: Request, call_next: Any) -> Any:
        number = f"req_{uuid.uuid4().hex}"
        try:
            response = await call_next(request)
        except Exception:
            _LOG.exception("request %s failed", number)
            response = own_error()
        response.headers["x-request-id"] = number
        tell(request, response)
        status = response.status_code
        # A sign-in elsewhere ends by a GET.
        reads = request.method in _READS or getattr(request.state, "reads", False)
        changed = not reads or getattr(request.state, "noted", False)
        if status in _REFUSED or (changed and status != _TOO_MUCH):
            await run_in_threadpool(_note, request, status, number)
        return response


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
