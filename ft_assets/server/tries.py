"""A fine-tuned model or its base asked by a person, as the router asks them, and told in parts as the answer is
written."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from ft_assets.api import FoundModel
from ft_assets.server.answering import Question, absent
from ft_assets.server.context import Context
from ft_assets.server.errors import operators_words
from ft_resources.serving.server import Piece, Sampling

MOST_TOKENS = 512
"""Of an answer for which nothing else is said; a base that was never taught to stop would fill its context."""


async def try_model(
    context: Context,
    model: FoundModel,
    turns: Sequence[dict[str, Any]],
    *,
    tools: Sequence[dict[str, Any]] = (),
    of_base: bool = False,
    most: int = MOST_TOKENS,
) -> AsyncGenerator[dict[str, Any]]:
    """The greedy answer of ``model`` or its base to a conversation, streamed from the first token. Model and
    base read the same prompt. Without a chat template the last message is continued.

    Parts are ``{"thoughts", "text", "tokens", "finish_reason"}``: what is added, the number of tokens so far, and why
    the answer ended. Raises BadRequest for what cannot be asked, NoServer, and what asking a server raises.
    """
    if context.fleet is None or not context.fleet.endpoints(model.served.base):
        raise absent(context.fleet, model.served)
    room = context.answering.known_context(model.served.base)

    def prepare() -> Question:
        prompts = context.prompts.of(model.artifact)
        chats = prompts.chats
        ids = prompts.asked(turns, room, tools)
        ends = prompts.ends(with_tools=bool(tools)) if chats else ()

        def sampling(left: int) -> Sampling:
            return Sampling(max_tokens=min(left, most), stop_token_ids=ends)

        return Question(
            model=model.served,
            prompt=ids,
            most=None,
            sampling=sampling,
            where="prompt",
            of_base=of_base,
            output=partial(prompts.output, ids) if chats else None,
        )

    return _told(await context.answering.ask(await context.answering.prepared(prepare)))


async def _told(pieces: AsyncGenerator[Piece]) -> AsyncGenerator[dict[str, Any]]:
    tokens = 0
    async with aclosing(pieces):
        async for piece in pieces:
            tokens += len(piece.tokens)
            said = {"thoughts": piece.thoughts, "text": piece.text}
            yield {**said, "tokens": tokens, "finish_reason": piece.finish_reason}


async def as_events(parts: AsyncGenerator[dict[str, Any]]) -> AsyncIterator[bytes]:
    """``parts`` as server-sent events."""
    async with aclosing(parts):
        async for part in parts:
            yield b"data: " + json.dumps(part).encode() + b"\n\n"


def why_not(context: Context, model: FoundModel) -> str:
    """Why ``model`` cannot be asked now, for a tenant; "" if it can. A server that can be started then is."""
    if context.fleet is not None and context.fleet.endpoints(model.served.base):
        return ""
    return operators_words(absent(context.fleet, model.served))
