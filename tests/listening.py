"""Applications on sockets of their own, served by one thread for as long as a test needs each.

A server of uvicorn's in a thread of its own costs a tenth of a second to end, and as much to start.
"""

import asyncio
import functools
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import uvicorn
from starlette.types import ASGIApp

Result = TypeVar("Result")


@contextmanager
def listening(app: ASGIApp, *, log_level: str = "warning", beside: bool = False) -> Iterator[str]:
    """Serve ``app``; its address. At the end its connections are cut, and requests that hang are cancelled.

    Args:
        beside: whether it is asked by applications under test, which then may wait for it: it has another thread.
    """
    loop = _loop("beside" if beside else "under test")
    server = loop.run(_started(uvicorn.Config(app, host="127.0.0.1", port=0, log_level=log_level)))
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        loop.run(_ended(server))


class _Loop:
    """An event loop in a thread, until this process ends."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name=name, daemon=True).start()

    def run(self, what: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()


_loop = functools.cache(_Loop)


async def _started(config: uvicorn.Config) -> uvicorn.Server:
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    # It says the date and the server's name from the first answer on.
    await server.on_tick(0)
    return server


async def _ended(server: uvicorn.Server) -> None:
    for each in server.servers:
        each.close()
    for connection in list(server.server_state.connections):
        connection.transport.abort()
    # Each hears that nobody is there any more.
    await asyncio.sleep(0)
    tasks = list(server.server_state.tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await server.lifespan.shutdown()
