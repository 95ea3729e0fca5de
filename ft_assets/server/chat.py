"""``/v1/chat/completions`` and ``/v1/completions``: what was trained, asked as OpenAI's models are."""

import logging
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import orjson
from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from ft_assets import api
from ft_assets.api import Division, FoundModel, Identity, Prompts
from ft_assets.server.answering import FAILURES, Output, Question
from ft_assets.server.answers.chats import ChatCompletion, Completion, streamed
from ft_assets.server.chat_answers import Answer, ChatAnswer, CompletionAnswer
from ft_assets.server.chat_bodies import Asked, ChatBody, CompletionBody
from ft_assets.server.client_gone import GONE, ClientGone, unless_gone
from ft_assets.server.context import Asker, Context, context_of
from ft_assets.server.errors import told
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.line_requests import LineRequest
from ft_assets.server.stop_strings import Cutter, Part
from ft_resources.errors import UserError
from ft_resources.serving.errors import BadRequest, NoServer
from ft_resources.serving.server import Piece, Sampling

_LOG = logging.getLogger(__name__)


router = APIRouter(prefix="/v1", route_class=KeyFirst)


@router.post("/chat/completions", responses=streamed(ChatCompletion, "chat.completion.chunk"))
async def chat(body: ChatBody, request: Request, caller: Asker) -> Response:
    """The model's next turn in a conversation."""
    context = context_of(request)

    def question(model: FoundModel, prompts: Prompts) -> Question:
        ids = prompts.chat(body.turns, context.answering.known_context(model.served.base))
        return _question(body, model, ids, prompts.stop_token_ids, "messages", partial(prompts.output, ids))

    def answer(model: FoundModel, prompts: Prompts, prompt_tokens: int) -> Answer:
        word = prompts.word if body.logprobs else None
        return ChatAnswer(body.model, model.served.digest[:16], prompt_tokens, with_usage=body.with_usage, word=word)

    return await _answered(body, request, context, caller, question, answer, body.turns if body.store else None)


@router.post("/completions", responses=streamed(Completion, "text_completion"))
async def completions(body: CompletionBody, request: Request, caller: Asker) -> Response:
    """How the model continues a text."""
    context = context_of(request)

    def question(model: FoundModel, prompts: Prompts) -> Question:
        ids = body.ids or prompts.text(body.text, context.answering.known_context(model.served.base))
        if not ids:
            raise BadRequest("the prompt is empty", where="prompt", remedy="Begin a text.")
        return _question(body, model, ids, (), "prompt")

    def answer(model: FoundModel, prompts: Prompts, prompt_tokens: int) -> Answer:
        return CompletionAnswer(body.model, model.served.digest[:16], prompt_tokens, with_usage=body.with_usage)

    return await _answered(body, request, context, caller, question, answer)


async def _answered(
    body: Asked,
    request: Request,
    context: Context,
    caller: Identity,
    ask: Callable[[FoundModel, Prompts], Question],
    answer_of: Callable[[FoundModel, Prompts, int], Answer],
    turns: Sequence[dict[str, Any]] | None = None,
) -> Response:
    began = time.monotonic()

    def prepare(model: FoundModel) -> tuple[Question, Answer]:
        prompts = context.prompts.of(model.artifact)
        question = ask(model, prompts)
        return question, answer_of(model, prompts, len(question.prompt))

    def ask_too(model: FoundModel) -> Question:
        return ask(model, context.prompts.of(model.artifact))

    async def answered(division: Division) -> tuple[AsyncIterator[Part], Answer]:
        """The parts, once the first one is there. Where a candidate's servers fail before, production answers: that is
        an outcome of the candidate, and none of production's, which was not chosen for this user."""
        # Who does not say who asks is another user each time.
        user = body.asker or uuid.uuid4().hex
        asked = LineRequest(
            context=context,
            division=division,
            user=user,
            began=began,
            ask=ask_too,
            stops=body.stops,
            most=body.most,
            turns=turns,
        )
        model = division.choose(user)
        question, answer = await context.answering.prepared(partial(prepare, model))
        try:
            parts = _parts(await context.answering.ask(question), answer, body)
            return asked.noted(parts, question.model, answer) if division.is_traffic else parts, answer
        except FAILURES as error:
            # A server that is not there yet is nobody's failure.
            if division.is_traffic and not isinstance(error, NoServer):
                asked.failed(question.model, answer)
            instead = division.instead_of(model)
            if instead is None:
                raise
            _LOG.warning("%s answers in place of a candidate that failed: %s", body.model, error)
        question, answer = await context.answering.prepared(partial(prepare, instead))
        return _parts(await context.answering.ask(question), answer, body), answer

    async def work() -> Response:
        division = await context.models.find(caller.tenant, body.model)
        if turns is not None:
            api.require_kept(body.model, division)
        parts, answer = await answered(division)
        if body.stream:
            # Its first piece is there: from here on the status says that all is well.
            return StreamingResponse(
                _events(parts, answer, body), media_type="text/event-stream", headers={"cache-control": "no-store"}
            )
        return JSONResponse(answer.whole([part async for part in parts]))

    try:
        return await unless_gone(request, work())
    except ClientGone:
        return Response(status_code=GONE)


def _question(
    body: Asked,
    model: FoundModel,
    prompt: list[int],
    stop_token_ids: tuple[int, ...],
    where: str,
    output: Callable[[], Output] | None = None,
) -> Question:
    def sampling(most: int) -> Sampling:
        return Sampling(
            max_tokens=most,
            # OpenAI's defaults.
            temperature=1.0 if body.temperature is None else body.temperature,
            top_p=1.0 if body.top_p is None else body.top_p,
            seed=body.seed,
            stop_token_ids=stop_token_ids,
            logprobs=body.logprobs_of,
        )

    # A stop string ends the generation, so each piece is looked at.
    whole = not body.stream and not body.stops
    return Question(
        model=model.served, prompt=prompt, most=body.most, sampling=sampling, where=where, output=output, whole=whole
    )


async def _parts(pieces: AsyncGenerator[Piece], answer: Answer, body: Asked) -> AsyncIterator[Part]:
    """The answer up to its first stop string; then the generation is ended."""
    cutter = Cutter(body.stops)
    async with aclosing(pieces):
        async for piece in pieces:
            answer.written += len(piece.tokens)
            part = cutter.take(piece)
            yield part
            if part.finish_reason is not None and piece.finish_reason is None:
                return


async def _events(parts: AsyncIterator[Part], answer: Answer, body: Asked) -> AsyncIterator[bytes]:
    for each in answer.begin():
        yield _event(each)
    try:
        async for part in parts:
            for each in answer.part(part):
                yield _event(each)
    except UserError as error:
        _LOG.warning("an answer of %s broke off: %s", body.model, error)
        yield _event(told(error))
        return
    for each in answer.end():
        yield _event(each)
    yield b"data: [DONE]\n\n"


def _event(part: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(part) + b"\n\n"
