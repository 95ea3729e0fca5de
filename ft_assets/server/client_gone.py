"""Work for a client that waits for it, and that ends when nobody waits any more."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from fastapi import Request

Result = TypeVar("Result")
GONE = 499
"""nginx's status for a client that closed its connection."""


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


async def unless_gone(request: Request, work: Awaitable[Result]) -> Result:
    """The work's result. Raises ClientGone, and gives it up, when the client goes away before."""
    gone, done = asyncio.ensure_future(_gone(request)), asyncio.ensure_future(work)
    try:
        await asyncio.wait({gone, done}, return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise ClientGone
        return done.result()
    finally:
        gone.cancel()
        done.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
