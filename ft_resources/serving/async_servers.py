"""Answers of many model servers at once, on one event loop."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import orjson

from ft_resources.errors import first_line
from ft_resources.serving.fleet import Endpoint
from ft_resources.serving.server import Piece, Sampling
from ft_resources.serving.wire import (
    COMPLETIONS,
    CUT_OFF,
    END,
    MODELS,
    Lines,
    Refusal,
    asked_of,
    piece_in,
    piece_of,
    readable,
    unavailable,
)
from ft_resources.tracing import carried, ending, tracer

# Less than the 5 s after which uvicorn, and so both kinds of server, closes an idle connection: a request sent while
# the other side closes fails.
_UNUSED_S = 3.0


class AsyncServers:
    """Asks endpoints. Belongs to the event loop that asks first.

    aiohttp is what asks here, as httpx takes three times its processor time for such a request, half of all that one
    costs the API.

    Args:
        first_s: most seconds until the first piece of an answer: others may wait before it, and its prompt is read.
        next_s: most seconds until each other piece: an engine on a CPU may read another's long prompt meanwhile.
        connect_s: most seconds until there is a connection.
        timeout: ends a block after so many seconds with TimeoutError.
    """

    def __init__(
        self,
        *,
        first_s: float = 120.0,
        next_s: float = 120.0,
        connect_s: float = 5.0,
        timeout: Callable[[float], AbstractAsyncContextManager[object]] = asyncio.timeout,
    ) -> None:
        self._first_s, self._next_s, self._connect_s, self._timeout = first_s, next_s, connect_s, timeout
        self._opened: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.close()

    async def context_length(self, endpoint: Endpoint) -> int:
        """Most tokens of a prompt and its answer together. Raises ServerUnavailable."""
        try:
            with readable(endpoint.url):
                async with (
                    self._timeout(self._first_s),
                    self._asked("GET", endpoint, MODELS) as answer,
                ):
                    models = {each["id"]: each for each in json.loads(await answer.read())["data"]}
                    return int(models[endpoint.model]["max_model_len"])
        except TimeoutError:
            raise unavailable(f"it did not answer for {self._first_s:g} s", endpoint.url) from None

    async def complete(self, endpoint: Endpoint, model: str, prompt: Sequence[int], sampling: Sampling) -> Piece:
        """The whole answer in one piece: a fraction of what its pieces cost both sides. What the server does meanwhile
        is not seen, so it has the time of the first and of another piece. Raises ServerUnavailable."""
        most_s = self._first_s + self._next_s
        body = asked_of(model, prompt, sampling)
        try:
            with _span(model, prompt) as headers, readable(endpoint.url):
                async with (
                    self._timeout(most_s),
                    self._asked("POST", endpoint, COMPLETIONS, headers, body) as answer,
                ):
                    return piece_of(json.loads(await answer.read())["choices"][0])
        except TimeoutError:
            raise unavailable(f"it gave no answer for {most_s:g} s", endpoint.url) from None

    async def stream(
        self, endpoint: Endpoint, model: str, prompt: Sequence[int], sampling: Sampling
    ) -> AsyncGenerator[Piece]:
        """An answer in pieces, as ``HttpServer.stream`` gives it. Closing it ends the generation. Raises
        ServerUnavailable also for a server that is silent for too long."""
        pieces, most_s = self._stream(endpoint, model, prompt, sampling), self._first_s
        async with aclosing(pieces):
            while True:
                try:
                    async with self._timeout(most_s):
                        piece = await anext(pieces, None)
                except TimeoutError:
                    raise unavailable(f"it wrote nothing for {most_s:g} s", endpoint.url) from None
                if piece is None:
                    return
                yield piece
                most_s = self._next_s

    async def _stream(
        self, endpoint: Endpoint, model: str, prompt: Sequence[int], sampling: Sampling
    ) -> AsyncGenerator[Piece]:
        body = {**asked_of(model, prompt, sampling), "stream": True}
        with _span(model, prompt) as headers, readable(endpoint.url):
            async with self._asked("POST", endpoint, COMPLETIONS, headers, body) as answer:
                complete, lines = False, Lines()
                # To the last byte, or the connection could not be used again.
                async for data in answer.content.iter_any():
                    for line in lines.of(data):
                        complete = complete or line == END
                        if not complete and (piece := piece_in(line, endpoint.url)) is not None:
                            yield piece
        if not complete:
            # A killed server may close its connection like one that has finished.
            raise unavailable(CUT_OFF, endpoint.url)

    @asynccontextmanager
    async def _asked(
        self,
        method: str,
        endpoint: Endpoint,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: dict[str, Any] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a request, whose body may still come. Raises what its status says."""
        data = None if body is None else orjson.dumps(body)
        sent = {"authorization": f"Bearer {endpoint.key}", "content-type": "application/json", **(headers or {})}
        try:
            async with self._session().request(
                method, endpoint.url + path, data=data, headers=sent, allow_redirects=False
            ) as answer:
                if answer.status >= 400:
                    refusal = Refusal(answer.status, answer.headers, await answer.read(), answer.reason or "")
                    raise refusal.error(endpoint.url)
                yield answer
        except aiohttp.ClientError as error:
            raise unavailable(f"{type(error).__name__}: {first_line(error)}", endpoint.url) from error

    def _session(self) -> aiohttp.ClientSession:
        # It can be created only inside a running loop.
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                # No limit on connections: the servers limit how many requests wait.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_UNUSED_S, use_dns_cache=False),
                timeout=aiohttp.ClientTimeout(total=None, connect=self._connect_s),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._opened


@contextmanager
def _span(model: str, prompt: Sequence[int]) -> Iterator[dict[str, str]]:
    """The span of a request, and the headers that name it."""
    span = tracer().start_span("ask a server", attributes={"ft.model": model, "ft.prompt_tokens": len(prompt)})
    with ending(span):
        yield carried(span)
