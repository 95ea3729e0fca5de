"""Which server answers: one that has the model's base, or another one where that fails before it says anything."""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from ft_resources.errors import NotFound, NotIdentified, UserError
from ft_resources.serving.async_servers import AsyncServers
from ft_resources.serving.errors import (
    BadAdapter,
    BadRequest,
    NameTaken,
    NoServer,
    PromptTooLong,
    ServerBusy,
    ServerUnavailable,
    Starting,
)
from ft_resources.serving.fleet import Endpoint, Fleet, ServedModel
from ft_resources.serving.server import Piece, Sampling

Result = TypeVar("Result")
# Loading an adapter may take seconds, and must not keep prompts from being written.
_PREPARING, _LOADING = 4, 16
_CONTEXT_KEPT_S = 60.0
# A longer answer comes in pieces even where nobody reads them: they show that the server still writes.
_WHOLE_TOKENS = 128
# A server that failed is tried last for so long: one that hangs would keep every other request for two minutes.
_DOUBTED_S = 300.0
FAILURES = (ServerUnavailable, NoServer, BadAdapter, NameTaken, NotIdentified)
"""Errors after which another server is asked. All but NoServer say that a server failed; a busy one did not."""
_ELSEWHERE = (*FAILURES, ServerBusy)


class Output(Protocol):
    """The thoughts and the answer of what a model writes, as it is written; ``plain`` once it is nothing but an
    answer, behind ``lead`` tokens of thoughts and marks."""

    lead: int

    @property
    def plain(self) -> bool: ...

    def add(self, ids: Sequence[int], *, ends: bool) -> tuple[str, str]:
        """Those that the token ids ``ids`` add; the last of them if the output ``ends``."""


class _NotLoaded(Exception):
    """The server does not know the model that it was asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a model is asked.

    Args:
        prompt: token ids.
        most: most tokens of the answer; None for what the context leaves.
        sampling: how the answer is written, for the most tokens that it may have.
        where: what the prompt was made of, for errors.
        of_base: whether the model's base is asked, without the adapter.
        output: takes the answer apart, if a chat template made the prompt.
        whole: whether nothing is done with a part of the answer before all of it is there.
    """

    model: ServedModel
    prompt: Sequence[int]
    most: int | None
    sampling: Callable[[int], Sampling]
    where: str
    of_base: bool = False
    output: Callable[[], Output] | None = None
    whole: bool = False


class Answering:
    """Asks the servers of ``fleet``. Belongs to one event loop; threads wait for what is being loaded.

    Args:
        servers: asks one server.
        load_s: most seconds that a request waits for its adapter at one server.
    """

    def __init__(self, fleet: Fleet | None, *, servers: AsyncServers | None = None, load_s: float = 60.0) -> None:
        self._fleet, self._load_s = fleet, load_s
        self._servers = servers or AsyncServers()
        self._preparing = ThreadPoolExecutor(_PREPARING, thread_name_prefix="prompt")
        self._loading = ThreadPoolExecutor(_LOADING, thread_name_prefix="load")
        self._turns = itertools.count()
        self._contexts: dict[str, tuple[float, int]] = {}
        self._failed_at: dict[str, float] = {}

    async def close(self) -> None:
        """Let go of connections and threads."""
        await self._servers.close()
        for pool in (self._preparing, self._loading):
            pool.shutdown(wait=False, cancel_futures=True)

    async def prepared(self, work: Callable[[], Result]) -> Result:
        """What ``work`` gives, beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._preparing, work)

    def known_context(self, base: str) -> int | None:
        """Most tokens of a prompt and its answer on any server of the base, as far as one was asked before."""
        ends = self._fleet.endpoints(base) if self._fleet is not None else ()
        # Called by threads, while the loop forgets a server.
        return max((self._contexts.get(each.url, (0.0, 0))[1] for each in ends), default=0) or None

    async def ask(self, question: Question) -> AsyncGenerator[Piece]:
        """The answer in pieces, once its first piece is there. Closing it ends the generation.

        Raises NoServer, ServerBusy if all are, BadRequest and PromptTooLong; and ServerUnavailable, here or later.
        """
        failed: UserError | None = None
        for endpoint in self._endpoints(question.model.base):
            try:
                pieces = await self._ask(endpoint, question)
                return _apart(pieces, question.output()) if question.output else pieces
            except _ELSEWHERE as error:
                if isinstance(error, ServerUnavailable):
                    self._failed_at[endpoint.url] = time.monotonic()
                # That another one is busy says more to who asks than that this one is gone.
                failed = failed if isinstance(failed, ServerBusy) else error
        raise failed or absent(self._fleet, question.model)

    async def _ask(self, endpoint: Endpoint, question: Question) -> AsyncGenerator[Piece]:
        await self._loaded(question, endpoint)
        try:
            return await self._ask_loaded(endpoint, question)
        except _NotLoaded:
            # It was started anew, or made room for another adapter, since it was last looked at.
            assert self._fleet is not None
            if not question.of_base:
                self._fleet.forget(question.model, endpoint)
            self._contexts.pop(endpoint.url, None)
        await self._loaded(question, endpoint)
        try:
            return await self._ask_loaded(endpoint, question)
        except _NotLoaded as error:
            raise ServerUnavailable(str(error), where=endpoint.url, remedy="Try again.") from error

    async def _ask_loaded(self, endpoint: Endpoint, question: Question) -> AsyncGenerator[Piece]:
        room = await self._context_length(endpoint) - len(question.prompt)
        most = room if question.most is None else question.most
        if room < 1 or most > room:
            error = PromptTooLong(len(question.prompt), max(most, 1), room + len(question.prompt))
            error.where = question.where
            raise error
        name = endpoint.model if question.of_base else question.model.name
        asked = endpoint, name, question.prompt, question.sampling(most)
        try:
            if question.whole and most <= _WHOLE_TOKENS:
                return _alone(await self._servers.complete(*asked))
            pieces = self._servers.stream(*asked)
            first = await anext(pieces)
        except NotFound as error:
            raise _NotLoaded(error.what) from error
        except BadRequest as error:
            raise BadRequest(error.what, where=question.where, remedy="Correct the request.") from error
        except StopAsyncIteration:
            raise ServerUnavailable(
                "it returned an empty answer", where=endpoint.url, remedy="Check its log."
            ) from None
        return _after(first, pieces)

    async def _loaded(self, question: Question, endpoint: Endpoint) -> None:
        assert self._fleet is not None
        model = question.model
        if question.of_base or self._fleet.serves(model, endpoint):
            return
        loading = asyncio.get_running_loop().run_in_executor(self._loading, self._fleet.load, model, endpoint)
        try:
            await asyncio.wait_for(loading, self._load_s)
        except TimeoutError:
            # It goes on beside: who asks again finds it loaded.
            what = f"{model.name} was not loaded within {self._load_s:.0f} s"
            raise ServerUnavailable(what, where=endpoint.name, remedy="Try again.") from None

    def _endpoints(self, base: str) -> Sequence[Endpoint]:
        """The servers to try, another one first each time, and last those that failed a moment ago."""
        if self._fleet is None:
            raise absent(None, None)
        found = self._fleet.endpoints(base)
        first = next(self._turns) % max(1, len(found))
        return sorted([*found[first:], *found[:first]], key=self._is_doubted)

    def _is_doubted(self, endpoint: Endpoint) -> bool:
        failed_at = self._failed_at.get(endpoint.url)
        return failed_at is not None and time.monotonic() - failed_at < _DOUBTED_S

    async def _context_length(self, endpoint: Endpoint) -> int:
        at, known = self._contexts.get(endpoint.url, (0.0, 0))
        if not known or time.monotonic() - at > _CONTEXT_KEPT_S:
            known = await self._servers.context_length(endpoint)
            self._contexts[endpoint.url] = (time.monotonic(), known)
        return known


async def _apart(pieces: AsyncGenerator[Piece], output: Output) -> AsyncGenerator[Piece]:
    held = ""
    async with aclosing(pieces):
        async for piece in pieces:
            if output.plain:
                yield piece
                continue
            ends = piece.finish_reason is not None
            # The token that ended the answer is no part of its text.
            tokens = piece.tokens[:-1] if piece.finish_reason == "stop" else piece.tokens
            thoughts, text = output.add([token.id for token in tokens], ends=ends)
            # A plain answer is told in the server's own words.
            told = held + piece.text if output.plain else text
            yield replace(piece, thoughts=thoughts, text=told, lead=output.lead)
            held += piece.text


def absent(fleet: Fleet | None, model: ServedModel | None) -> NoServer:
    """The error where no server has the base of ``model``; where ``fleet`` can, one is started."""
    if fleet is None or model is None:
        return NoServer("no fleet of servers was given", where="fleet", remedy="Start servers.")
    why = fleet.want(model)
    if why:
        return NoServer(f"no server has this base: {why}", where=model.base, remedy="Start one.")
    return Starting("a server of this base is starting", where=model.base, remedy="Try again in a minute.")


async def _alone(piece: Piece) -> AsyncGenerator[Piece]:
    yield piece


async def _after(first: Piece, pieces: AsyncGenerator[Piece]) -> AsyncGenerator[Piece]:
    try:
        yield first
        async for piece in pieces:
            yield piece
    finally:
        await pieces.aclose()
