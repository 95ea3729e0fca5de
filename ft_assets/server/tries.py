"""One question to a fine-tuned model and to its base, side by side, as the router asks them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ft_assets.api import FoundModel, Identity
from ft_assets.server.answering import Output, Question, absent
from ft_assets.server.context import Context
from ft_assets.server.errors import operators_words, status_of_error
from ft_resources.errors import UserError, in_sentences
from ft_resources.serving.errors import BadRequest
from ft_resources.serving.server import Sampling

MOST_TOKENS = 512
"""Of each answer; a base that was never taught to stop would fill its context."""
_SERVER = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """What one of the two said.

    Args:
        text: of the answer.
        thoughts: before it.
        tokens: that were written, the end token included.
        cut_off: whether the answer was ended by its length.
        problem: why there is no answer; "" where there is one.
    """

    text: str = ""
    thoughts: str = ""
    tokens: int = 0
    cut_off: bool = False
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """Both answers, and the address of the adapter that gave the first."""

    adapter: str
    model: Tried
    base: Tried


async def try_model(context: Context, caller: Identity, name: str, text: str, system: str = "") -> Trial:
    """What the tenant's model ``name`` and its base say to ``text``: their likeliest tokens, of the same prompt.

    Raises NotFound for no model of the tenant, BadRequest for what cannot be asked, and NoServer.
    """

    if not text.strip():
        raise BadRequest("the prompt is empty", where="prompt", remedy="Write what the model is to answer.")
    # Whoever tries is no user of the line: nothing is noted for a rollout.
    model = (await context.models.find(caller.tenant, name)).choose(caller.actor)
    if why_not(context, model):
        raise absent(context.fleet, model.served)
    room = context.answering.known_context(model.served.base)

    def prepare() -> tuple[Question, Question]:
        prompts = context.prompts.of(model.artifact)
        said = [{"role": "system", "content": system}] if system.strip() else []
        asked = [*said, {"role": "user", "content": text}]
        ids = prompts.chat(asked, room) if prompts.chats else prompts.text(text, room)
        ends = prompts.stop_token_ids if prompts.chats else ()
        output = partial(prompts.output, ids) if prompts.chats else None
        return _question(model, ids, ends, output), _question(model, ids, ends, output, of_base=True)

    of_model, of_base = await context.answering.prepared(prepare)
    told = await asyncio.gather(_tried(context, of_model), _tried(context, of_base))
    return Trial(adapter=model.served.address, model=told[0], base=told[1])


def why_not(context: Context, model: FoundModel) -> str:
    """Why ``model`` cannot be asked now, for a tenant; "" if it can. A server that can be started then is."""
    if context.fleet is not None and context.fleet.endpoints(model.served.base):
        return ""
    return operators_words(absent(context.fleet, model.served))


def _question(
    model: FoundModel,
    prompt: list[int],
    ends: tuple[int, ...],
    output: Callable[[], Output] | None,
    *,
    of_base: bool = False,
) -> Question:
    def sampling(room: int) -> Sampling:
        return Sampling(max_tokens=min(room, MOST_TOKENS), stop_token_ids=ends)

    served = model.served
    return Question(
        model=served, prompt=prompt, most=None, sampling=sampling, where="prompt", of_base=of_base, output=output
    )


async def _tried(context: Context, question: Question) -> Tried:
    """An answer, or the error instead of it: if one model fails, the other's answer is still shown."""
    texts, thoughts, tokens, reason = [], [], 0, None
    try:
        async for piece in await context.answering.ask(question):
            texts.append(piece.text)
            thoughts.append(piece.thoughts)
            tokens, reason = tokens + len(piece.tokens), piece.finish_reason
    except UserError as error:
        return Tried(problem=operators_words(error) if status_of_error(error) >= _SERVER else in_sentences(error.what))
    return Tried(text="".join(texts), thoughts="".join(thoughts), tokens=tokens, cut_off=reason == "length")
