"""Events of a job as they happen (server-sent events): however many listen to a job, its records are read once."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool

from ft_assets import api
from ft_assets.server.context import Context
from ft_assets.server.errors import error_object
from ft_assets.server.events import events_of
from ft_assets.server.jobs import ENDED, status_of
from ft_resources.errors import NotIdentified, UserError, in_sentences

_LOG = logging.getLogger(__name__)
_EVERY_S = 1.0
# Proxies close connections on which nothing comes.
_ALIVE_S = 15.0
# Without an empty line, after which OpenAI's client would read an event without data.
_ALIVE = ":\n"
_ENDS = error_object(
    "The server is stopping, and the job goes on. Connect again, with Last-Event-ID.",
    kind="server_error",
    code="server_ends",
)
_ENDING = threading.Event()


def end_streams() -> None:
    """Let every stream of this process end within a second or two: who listens is told to come again. From any thread,
    or a handler of a signal."""
    _ENDING.set()


class Streams:
    """The event streams of this server's clients; ``words`` rewrites messages. A job is read while a client listens."""

    def __init__(
        self,
        every_s: float = _EVERY_S,
        identify_every_s: float = _ALIVE_S,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        words: Callable[[str], str] = str,
    ) -> None:
        self._every_s, self._identify_every_s, self._sleep, self._words = every_s, identify_every_s, sleep, words
        self._jobs: dict[tuple[str, str], _Job] = {}

    async def events(
        self, context: Context, tenant: str, job_id: str, after: str = "", *, identify: Callable[[], object]
    ) -> AsyncIterator[str]:
        """The job's events as lines of the protocol, the oldest first, those after the event ``after`` where it is
        given; it ends with the job, within 15 seconds after ``identify`` raises NotIdentified, or with the server."""
        key = (tenant, job_id)
        job = self._jobs.setdefault(key, _Job())
        job.listeners += 1
        if job.reading is None:
            job.reading = asyncio.create_task(self._read(context, tenant, job_id, job))
        try:
            place, looked_at = 0, time.monotonic()
            while True:
                if time.monotonic() - looked_at >= self._identify_every_s:
                    looked_at = time.monotonic()
                    if error := await _no_longer(identify):
                        yield f"event: error\ndata: {json.dumps(error)}\n\n"
                        return
                news = job.events[place:]
                place += len(news)
                if after and news:
                    # One that has gone, as of an attempt that another took over, is followed by all that there are.
                    news = news[next((number for number, each in enumerate(news, 1) if each["id"] == after), 0) :]
                    after = ""
                for event in news:
                    told = {**event, "message": self._words(event["message"])}
                    yield f"event: {event['object']}\nid: {event['id']}\ndata: {json.dumps(told)}\n\n"
                if job.ended and place == len(job.events):
                    yield "data: [DONE]\n\n"
                    return
                if job.given_up:
                    yield f"event: error\ndata: {json.dumps(_ENDS)}\n\n"
                    return
                try:
                    async with job.changed:
                        await asyncio.wait_for(job.changed.wait_for(partial(job.beyond, place)), self._identify_every_s)
                except TimeoutError:
                    yield _ALIVE
        finally:
            job.listeners -= 1
            if not job.listeners:
                job.reading.cancel()
                self._jobs.pop(key, None)

    async def _read(self, context: Context, tenant: str, job_id: str, job: "_Job") -> None:
        known: set[str] = set()
        while not job.ended and not _ENDING.is_set():
            try:
                found, ended = await run_in_threadpool(_look, context, tenant, job_id)
            except UserError as error:
                # Who listens keeps listening: the store may be back in a moment.
                _LOG.warning("job ftjob-%s cannot be read: %s", job_id, error)
                await self._sleep(self._every_s)
                continue
            fresh = [event for event in found if event["id"] not in known]
            known.update(event["id"] for event in fresh)
            job.events += fresh
            job.ended = ended
            if fresh or ended:
                async with job.changed:
                    job.changed.notify_all()
            await self._sleep(self._every_s)
        if not job.ended:
            job.given_up = True
            async with job.changed:
                job.changed.notify_all()


class _Job:
    """A job that somebody listens to: its events so far, the oldest first."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.ended = False
        self.given_up = False
        """Nothing more is read of it, as the server ends."""
        self.listeners = 0
        self.changed = asyncio.Condition()
        self.reading: asyncio.Task[None] | None = None

    def beyond(self, place: int) -> bool:
        """Whether there is something to tell to whom heard ``place`` events."""
        return self.ended or self.given_up or len(self.events) > place


async def _no_longer(identify: Callable[[], object]) -> dict[str, Any] | None:
    """The error for whoever listens and may not any more; None for the others."""
    try:
        await run_in_threadpool(identify)
    except NotIdentified as error:
        return error_object(in_sentences(error.what, error.remedy), code="invalid_api_key")
    except UserError as error:
        # A database that does not answer ends nothing.
        _LOG.warning("a listener cannot be identified again: %s", error)
    return None


def _look(context: Context, tenant: str, job_id: str) -> tuple[list[dict[str, Any]], bool]:
    """The job's events, the oldest first, and whether it has ended."""
    # The state first: what it tells of the end, the events tell too.
    state = api.job_state(tenant, job_id, store=context.store, launcher=context.launcher)
    work = api.job_work(state, store=context.store)
    return events_of(state, work)[::-1], status_of(state) in ENDED
