"""Bodies other than uploads are read whole before anybody is identified, so they have to be short."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ft_assets.server.errors import error_object

MOST_BYTES = 1 << 20
_SAID = "The body is over 1 MiB."
_TOO_LONG = JSONResponse(error_object(_SAID, code="body_too_long"), 413)


class BodyLimit:
    """Refuses a body of more than 1 MiB that is not multipart, with 413."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = Request(scope).headers.get("content-type", "") if scope["type"] == "http" else ""
        if scope["type"] != "http" or kind.startswith("multipart/form-data"):
            await self.app(scope, receive, send)
            return
        if _announced(Request(scope)) > MOST_BYTES:
            await _TOO_LONG(scope, receive, send)
            return
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MOST_BYTES:
                raise HTTPException(413, _SAID)
            return message

        await self.app(scope, counted, send)


def _announced(request: Request) -> int:
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else 0
