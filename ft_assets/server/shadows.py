"""Copies of requests for a rollout's candidate. Nobody is sent its answers, and nobody waits for them."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from contextvars import Context as Variables
from dataclasses import dataclass, field
from functools import partial

from ft_assets import api
from ft_assets.api import AnswerFormat, AnswerSeen, FoundModel, ShadowLog
from ft_assets.server.answering import Answering, Question
from ft_assets.server.metrics.shadows import ShadowFigures
from ft_assets.server.stop_strings import Cutter, Part
from ft_resources.errors import UserError
from ft_resources.serving.errors import NoServer, ServerBusy
from ft_resources.serving.fleet import Fleet, ServedModel

_LOG = logging.getLogger(__name__)
AT_ONCE, WAITING = 4, 32
"""Copies for one candidate that are asked at once, and that wait; further ones are dropped."""
_LEAST_S, _TIMES = 60.0, 3.0


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A request that production has answered.

    Args:
        candidate: who is asked the same.
        incumbent: who answered.
        request: id of the answer.
        seen: what is known of it.
        seconds: what it took, also where it failed.
        ask: makes the question for the candidate.
        stops: its stop strings.
        format: what a valid answer looks like; None where none is graded.
        has_own_end: whether an answer with this last part was not broken off by the request.
        keep: keeps the text of the candidate's answer; None where no text may be kept.
    """

    candidate: FoundModel
    incumbent: ServedModel
    request: str
    seen: AnswerSeen
    seconds: float
    ask: Callable[[FoundModel], Question]
    stops: tuple[str, ...]
    format: AnswerFormat | None
    has_own_end: Callable[[Part], bool]
    keep: Callable[[str], None] | None


@dataclass(slots=True)
class _Lane:
    """The copies for one candidate."""

    waiting: deque[Copy] = field(default_factory=deque)
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)


class Shadows:
    """Asks candidates, and keeps what is seen of their answers in ``log``. Belongs to one event loop.

    Connections, threads and the memory of servers that failed are its own, and each candidate has its own queue: one
    that hangs or fails is in nobody's way.
    """

    def __init__(
        self,
        fleet: Fleet | None,
        log: ShadowLog,
        figures: ShadowFigures,
        *,
        at_once: int = AT_ONCE,
        waiting: int = WAITING,
        least_s: float = _LEAST_S,
        timeout: Callable[[float], AbstractAsyncContextManager[object]] = asyncio.timeout,
    ) -> None:
        self._answering, self._log, self._figures = Answering(fleet), log, figures
        self._at_once, self._waiting, self._least_s, self._timeout = at_once, waiting, least_s, timeout
        self._lanes: dict[str, _Lane] = {}

    def offer(self, copy: Copy) -> None:
        """Have the candidate asked soon, or drop the copy where too many wait. Returns at once."""
        lane = self._lanes.setdefault(copy.candidate.served.name, _Lane())
        if len(lane.tasks) < self._at_once:
            # In no context of the user's request: its trace ends with its own answer.
            lane.tasks.add(asyncio.get_running_loop().create_task(self._work(lane, copy), context=Variables()))
        elif len(lane.waiting) < self._waiting:
            lane.waiting.append(copy)
        else:
            self._figures.add("dropped")

    async def close(self) -> None:
        """Cancel running requests, drop queued copies, and close connections and threads."""
        tasks = [task for lane in self._lanes.values() for task in lane.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._answering.close()

    async def _work(self, lane: _Lane, copy: Copy) -> None:
        try:
            await self._copied(copy)
            while lane.waiting:
                await self._copied(lane.waiting.popleft())
        finally:
            # At once: a copy that comes after the last look at the queue begins a task of its own.
            lane.tasks = {each for each in lane.tasks if each is not asyncio.current_task()}
            if not lane.tasks and not lane.waiting:
                self._lanes.pop(copy.candidate.served.name, None)

    async def _copied(self, copy: Copy) -> None:
        try:
            async with self._timeout(self._least_s + _TIMES * copy.seconds):
                seen = await self._seen(copy)
        except (ServerBusy, NoServer):
            # They say nothing of the candidate.
            self._figures.add("busy")
            return
        except (UserError, TimeoutError) as error:
            _LOG.warning("%s did not answer a copied request: %s", copy.candidate.served.name, error or "time is up")
            seen = api.FAILED
        except Exception:
            # Whatever it was, production had an answer, and the next copy has its turn.
            _LOG.exception("%s did not answer a copied request", copy.candidate.served.name)
            seen = api.FAILED
        self._figures.add("failed" if seen == api.FAILED else "answered")
        api.note_pair(
            self._log,
            copy.candidate.served,
            copy.incumbent,
            request=copy.request,
            candidate_answer=seen,
            incumbent_answer=copy.seen,
        )

    async def _seen(self, copy: Copy) -> AnswerSeen:
        began = time.monotonic()
        question = await self._answering.prepared(partial(copy.ask, copy.candidate))
        cutter, said, tokens, reason, own_end = Cutter(copy.stops), [], 0, None, False
        async with aclosing(await self._answering.ask(question)) as pieces:
            async for piece in pieces:
                tokens += len(piece.tokens)
                part = cutter.take(piece)
                said.append(part.text)
                own_end = copy.has_own_end(part)
                if (reason := part.finish_reason) is not None and piece.finish_reason is None:
                    break
        text, seconds, valid = "".join(said), time.monotonic() - began, None
        if copy.format is not None and own_end:
            valid = await self._answering.prepared(partial(api.grade, question.model, copy.format, text))
        if copy.keep is not None and reason == "stop":
            copy.keep(text)
        return api.seen_of(text, seconds=seconds, tokens=tokens, valid=valid)
