"""The engine over HTTP."""

import asyncio
import hmac
import json
import math
from collections.abc import AsyncIterator, Awaitable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request as Http
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ft_assets.workers.serving.dialect import Answer, Body, CompletionBody, LoadBody, UnloadBody, error_answer
from ft_assets.workers.serving.engine import Engine
from ft_assets.workers.serving.mail import Mail
from ft_assets.workers.serving.metrics import Metrics
from ft_assets.workers.serving.requests import Event, Failed, Read, Request, Written
from ft_assets.workers.serving.traced import TracedAnswer
from ft_resources.errors import NotIdentified, TooManyRequests, UserError
from ft_resources.said import first_of
from ft_resources.serving.errors import BadRequest, ServerUnavailable
from ft_resources.serving.server import Reason, Token

Parsed = TypeVar("Parsed", bound=Body)
HEALTH = "/health"


def make_app(engine: Engine, key: str) -> ASGIApp:
    """The application; every request but ``GET /health`` needs ``Authorization: Bearer KEY``."""
    door = _Door(engine)
    routes = [
        Route(HEALTH, door.health),
        Route("/metrics", door.metrics),
        Route("/v1/models", door.models),
        Route("/v1/completions", door.completions, methods=["POST"]),
        Route("/v1/load_lora_adapter", door.load, methods=["POST"]),
        Route("/v1/unload_lora_adapter", door.unload, methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={UserError: _told})

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != HEALTH:
            sent = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(sent, f"Bearer {key}".encode()):
                error = NotIdentified("the key is missing or wrong", where="Authorization", remedy="Send the key.")
                await _told(Http(scope), error)(scope, receive, send)
                return
        await app(scope, receive, send)

    return guarded


class _Door:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._registry = CollectorRegistry()
        self._registry.register(Metrics(engine))
        self._mail = Mail()

    async def health(self, http: Http) -> Response:
        return Response(status_code=200 if self._engine.healthy else 503)

    async def metrics(self, http: Http) -> Response:
        return PlainTextResponse(generate_latest(self._registry))

    async def models(self, http: Http) -> Response:
        kind, name = {"object": "model", "owned_by": "ft"}, self._engine.name
        base = {"id": name, **kind, "parent": None, "max_model_len": self._engine.context_length}
        adapters = [
            {"id": each.name, **kind, "parent": name, "root": str(each.folder)} for each in self._engine.adapters()
        ]
        return JSONResponse({"object": "list", "data": [base, *adapters]})

    async def load(self, http: Http) -> Response:
        body = await _parsed(http, LoadBody)
        await _done(self._engine.load(body.lora_name, Path(body.lora_path)))
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' added successfully.")

    async def unload(self, http: Http) -> Response:
        body = await _parsed(http, UnloadBody)
        await _done(self._engine.unload(body.lora_name))
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' removed successfully.")

    async def completions(self, http: Http) -> Response:
        body = await _parsed(http, CompletionBody)
        if body.stream and body.prompt_logprobs is not None:
            raise BadRequest("prompt_logprobs do not stream", where="stream", remedy="Ask for one or the other.")
        events: asyncio.Queue[Event] = asyncio.Queue()
        tell = self._mail.to(events, as_a_whole=not body.stream)
        traced = TracedAnswer(http.headers, body.model, len(body.prompt), tell)
        asked = Request(body.model, body.prompt, body.sampling, traced, body.prompt_logprobs)
        self._engine.submit(asked)
        answer = Answer(body, self._engine.tokenizer)
        try:
            # Problems with the adapter are known before the first token, while a status can still be sent.
            scores = await _unless_gone(http, _read(events))
            if not body.stream:
                tokens, reason = await _unless_gone(http, _whole(events))
                traced.end()
                return JSONResponse({**answer.part(tokens, reason, scores), "usage": answer.usage()})
        except BaseException:
            asked.cancelled = True
            traced.end()
            raise
        return _Stream(_parts(events, answer, body.stream_options.include_usage), asked, traced)


class _Stream(StreamingResponse):
    """Server-sent events; a client that goes away ends the generation."""

    def __init__(self, parts: AsyncIterator[str], asked: Request, traced: TracedAnswer) -> None:
        super().__init__(parts, media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._asked, self._traced = asked, traced

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._asked.cancelled = True
            self._traced.end()


async def _parts(events: "asyncio.Queue[Event]", answer: Answer, with_usage: bool) -> AsyncIterator[str]:
    reason: Reason | None = None
    while reason is None:
        event = await events.get()
        if isinstance(event, Failed):
            yield _sent(error_answer(_as_user_error(event.error))[1])
            return
        if isinstance(event, Written):
            reason = event.reason
            yield _sent(answer.part([event.token], reason))
    if with_usage:
        yield _sent(answer.last())
    yield "data: [DONE]\n\n"


def _sent(part: dict[str, Any]) -> str:
    return f"data: {json.dumps(part)}\n\n"


async def _read(events: "asyncio.Queue[Event]") -> tuple[Token, ...]:
    event = await events.get()
    if isinstance(event, Failed):
        raise _as_user_error(event.error)
    return event.scores if isinstance(event, Read) else ()


async def _whole(events: "asyncio.Queue[Event]") -> tuple[list[Token], Reason]:
    tokens: list[Token] = []
    while True:
        event = await events.get()
        if isinstance(event, Failed):
            raise _as_user_error(event.error)
        if isinstance(event, Written):
            tokens.append(event.token)
            if event.reason is not None:
                return tokens, event.reason


Result = TypeVar("Result")


async def _unless_gone(http: Http, work: Awaitable[Result]) -> Result:
    """The work's result; it is given up when the client goes away."""
    gone, done = asyncio.ensure_future(_gone(http)), asyncio.ensure_future(work)
    try:
        await asyncio.wait({gone, done}, return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise ServerUnavailable("the client went away")
        return done.result()
    finally:
        gone.cancel()
        done.cancel()


async def _gone(http: Http) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass


async def _done(order: Future[None]) -> None:
    await asyncio.wrap_future(order)


async def _parsed(http: Http, kind: type[Parsed]) -> Parsed:
    try:
        return kind.model_validate_json(await http.body())
    except ValidationError as error:
        where, what = first_of(error, "The body")
        raise BadRequest(what, where=where, remedy="Correct the request.") from None


def _as_user_error(error: Exception) -> UserError:
    return error if isinstance(error, UserError) else ServerUnavailable(str(error))


def _told(http: Http, error: Exception) -> Response:
    status, body = error_answer(_as_user_error(error))
    headers = {"retry-after": str(math.ceil(error.retry_s))} if isinstance(error, TooManyRequests) else {}
    return JSONResponse(body, status, headers)
