"""Answers of many servers of models at once, on one event loop."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import httpx

from ft_resources.serving.fleet import Endpoint
from ft_resources.serving.server import Piece, Sampling
from ft_resources.serving.wire import (
    COMPLETIONS,
    CUT_OFF,
    END,
    MODELS,
    Lines,
    asked_of,
    piece_in,
    readable,
    require_ok,
    unavailable,
)
from ft_resources.tracing import carried, ending, tracer


class AsyncServers:
    """Asks endpoints.

    Args:
        first_s: most seconds until the first piece of an answer: others may wait before it, and its prompt is read.
        next_s: most seconds until each other piece: an engine on a CPU may read another's long prompt meanwhile.
        connect_s: most seconds until there is a connection.
    """

    def __init__(self, *, first_s: float = 120.0, next_s: float = 120.0, connect_s: float = 5.0) -> None:
        self._first_s, self._next_s = first_s, next_s
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(max(first_s, next_s), connect=connect_s),
            # As many connections as there are requests: the servers say how many may wait.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=128),
            trust_env=False,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def context_length(self, endpoint: Endpoint) -> int:
        """Most tokens of a prompt and its answer together. Raises ServerUnavailable."""
        with readable(endpoint.url):
            answer = await self._client.get(endpoint.url + MODELS, headers=_headers(endpoint))
        require_ok(answer, endpoint.url)
        with readable(endpoint.url):
            models = {each["id"]: each for each in answer.json()["data"]}
            return int(models[endpoint.model]["max_model_len"])

    async def stream(
        self, endpoint: Endpoint, model: str, prompt: Sequence[int], sampling: Sampling
    ) -> AsyncGenerator[Piece]:
        """An answer in pieces, as ``HttpServer.stream`` gives it. Closing it ends the generation. Raises
        ServerUnavailable also for a server that is silent for too long."""
        pieces, most_s = self._stream(endpoint, model, prompt, sampling), self._first_s
        async with aclosing(pieces):
            while True:
                try:
                    async with asyncio.timeout(most_s):
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
        url = endpoint.url + COMPLETIONS
        span = tracer().start_span("ask a server", attributes={"ft.model": model, "ft.prompt_tokens": len(prompt)})
        headers = {**_headers(endpoint), **carried(span)}
        with ending(span), readable(endpoint.url):
            async with self._client.stream("POST", url, json=body, headers=headers) as answer:
                if answer.is_error:
                    await answer.aread()
                require_ok(answer, endpoint.url)
                complete, lines = False, Lines()
                # To the last byte, or the connection could not be used again.
                async for data in answer.aiter_bytes():
                    for line in lines.of(data):
                        complete = complete or line == END
                        if not complete and (piece := piece_in(line, endpoint.url)) is not None:
                            yield piece
        if not complete:
            # A server that is killed may close its connection as one that has told all.
            raise unavailable(CUT_OFF, endpoint.url)


def _headers(endpoint: Endpoint) -> dict[str, str]:
    return {"authorization": f"Bearer {endpoint.key}"}
