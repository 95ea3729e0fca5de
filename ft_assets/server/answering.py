"""Which server answers: one that has the model's base, or another one where that fails before it says anything."""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

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
)
from ft_resources.serving.fleet import Endpoint, Fleet, ServedModel
from ft_resources.serving.server import Piece, Sampling

Result = TypeVar("Result")
# Loading an adapter may take seconds, and must not keep prompts from being written.
_PREPARING, _LOADING = 4, 16
_CONTEXT_KEPT_S = 60.0
_ELSEWHERE = (ServerUnavailable, ServerBusy, BadAdapter, NameTaken, NotIdentified)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a model is asked.

    Args:
        prompt: token ids.
        most: most tokens of the answer; None for what the context leaves.
        sampling: how the answer is written, for the most tokens that it may have.
        where: what the prompt was made of, for errors.
    """

    model: ServedModel
    prompt: Sequence[int]
    most: int | None
    sampling: Callable[[int], Sampling]
    where: str


class Answering:
    """Asks the servers of ``fleet``. Belongs to one event loop; threads wait for what is being loaded."""

    def __init__(self, fleet: Fleet | None) -> None:
        self._fleet = fleet
        self._servers = AsyncServers()
        self._preparing = ThreadPoolExecutor(_PREPARING, thread_name_prefix="prompt")
        self._loading = ThreadPoolExecutor(_LOADING, thread_name_prefix="load")
        self._turns = itertools.count()
        self._contexts: dict[str, tuple[float, int]] = {}

    async def close(self) -> None:
        """Let go of connections and threads."""
        await self._servers.close()
        for pool in (self._preparing, self._loading):
            pool.shutdown(wait=False, cancel_futures=True)

    async def prepared(self, work: Callable[[], Result]) -> Result:
        """What ``work`` gives, beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._preparing, work)

    async def ask(self, question: Question) -> AsyncGenerator[Piece]:
        """The answer in pieces, once its first piece is there. Closing it ends the generation.

        Raises NoServer, ServerBusy if all are, BadRequest and PromptTooLong; and ServerUnavailable, here or later.
        """
        failed: UserError | None = None
        for endpoint in self._endpoints(question.model.base):
            try:
                return await self._ask(endpoint, question)
            except _ELSEWHERE as error:
                # That another one is busy says more to who asks than that this one is gone.
                failed = failed if isinstance(failed, ServerBusy) else error
        raise failed or NoServer("no server has this base", where=question.model.base, remedy="Start one.")

    async def _ask(self, endpoint: Endpoint, question: Question) -> AsyncGenerator[Piece]:
        assert self._fleet is not None
        if not self._fleet.serves(question.model, endpoint):
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._loading, self._fleet.load, question.model, endpoint)
        room = await self._context_length(endpoint) - len(question.prompt)
        most = room if question.most is None else question.most
        if room < 1 or most > room:
            error = PromptTooLong(len(question.prompt), max(most, 1), room + len(question.prompt))
            error.where = question.where
            raise error
        pieces = self._servers.stream(endpoint, question.model.name, question.prompt, question.sampling(most))
        try:
            first = await anext(pieces)
        except NotFound as error:
            # It was started anew, or made room for another adapter, since it was last looked at.
            raise ServerUnavailable(error.what, where=endpoint.url, remedy="Try again.") from error
        except BadRequest as error:
            raise BadRequest(error.what, where=question.where, remedy="Mend the request.") from error
        except StopAsyncIteration:
            raise ServerUnavailable("it gave an empty answer", where=endpoint.url, remedy="Look at its log.") from None
        return _after(first, pieces)

    def _endpoints(self, base: str) -> Sequence[Endpoint]:
        """The servers to try, another one first each time."""
        if self._fleet is None:
            raise NoServer("no fleet of servers was given", where="fleet", remedy="Start servers.")
        found = self._fleet.endpoints(base)
        first = next(self._turns) % max(1, len(found))
        return [*found[first:], *found[:first]]

    async def _context_length(self, endpoint: Endpoint) -> int:
        at, known = self._contexts.get(endpoint.url, (0.0, 0))
        if not known or time.monotonic() - at > _CONTEXT_KEPT_S:
            known = await self._servers.context_length(endpoint)
            self._contexts[endpoint.url] = (time.monotonic(), known)
        return known


async def _after(first: Piece, pieces: AsyncGenerator[Piece]) -> AsyncGenerator[Piece]:
    try:
        yield first
        async for piece in pieces:
            yield piece
    finally:
        await pieces.aclose()
