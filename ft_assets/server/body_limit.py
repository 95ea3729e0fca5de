"""Bodies other than uploads are read whole, so they have to be short, and to come soon."""

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES, STRANGERS_BYTES = 1 << 20, 64 << 10
"""Of a body: of who was identified, and of all others, who sign in by a form."""
WITHIN_S = 60.0


def without_limit(request: Request) -> None:
    """Let the body have any length and time, for an endpoint that reads it as it comes. Call it only for who was
    identified."""
    request.state.any_body = True


class BodyLimit:
    """Reads no more than 1 MiB of a body, 64 KiB of a stranger's (413), and waits for it no longer than a minute (408);
    whatever its content type is, and but where ``without_limit`` was called."""

    def __init__(self, app: ASGIApp, within_s: float = WITHIN_S) -> None:
        self.app, self._within_s = app, within_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, size, complete, answered, until = Request(scope), 0, False, False, 0.0

        async def noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        async def counted() -> Message:
            nonlocal size, complete, until
            # Once there is an answer, what else comes is dropped by whoever waits for the client to go away.
            if complete or answered or getattr(request.state, "any_body", False):
                return await receive()
            most = MOST_BYTES if hasattr(request.state, "caller") else STRANGERS_BYTES
            _require_short(_announced(request), most)
            until = until or asyncio.get_running_loop().time() + self._within_s
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"The body did not come within {self._within_s:g} seconds.") from None
            size += len(message.get("body", b""))
            _require_short(size, most)
            complete = not message.get("more_body")
            return message

        await self.app(scope, counted, noted)


def _require_short(size: int, most: int) -> None:
    if size > most:
        raise HTTPException(413, f"The body is over {'1 MiB' if most == MOST_BYTES else '64 KiB'}.")


def _announced(request: Request) -> int:
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else 0
