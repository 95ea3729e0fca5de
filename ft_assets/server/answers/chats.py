"""Answers of models."""

from typing import Any, Literal

from ft_assets.server.answers.base import Object, Responses

FinishReason = Literal["stop", "length"]


class Usage(Object):
    """Tokens of the prompt and of the answer."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class LikelyToken(Object):
    """A token that could have stood there."""

    token: str
    logprob: float | None
    bytes: list[int] | None


class WrittenToken(LikelyToken):
    """A token of the answer, and the likeliest ones at its place."""

    top_logprobs: list[LikelyToken]


class Logprobs(Object):
    """Log-probabilities of an answer's tokens."""

    content: list[WrittenToken]
    refusal: None


class Reply(Object):
    """What the model said."""

    role: Literal["assistant"]
    content: str
    refusal: None
    reasoning_content: str | None = None
    """Thoughts of the model, if any."""


class ChatChoice(Object):
    """The one answer."""

    index: int
    message: Reply
    logprobs: Logprobs | None
    finish_reason: FinishReason


class ChatCompletion(Object):
    """An answer to a conversation; ``system_fingerprint`` says of which adapter it is."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage


class TextChoice(Object):
    """The one continuation."""

    index: int
    text: str
    logprobs: None
    finish_reason: FinishReason


class Completion(Object):
    """The continuation of a text; ``system_fingerprint`` says of which adapter it is."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage


def streamed(model: type[Object], part: str) -> Responses:
    """An answer as one object, or with ``stream`` as server-sent events whose data are objects ``part``."""
    words = f"With `stream`: events whose data are `{part}` objects, and then `[DONE]`."
    events: dict[str, Any] = {"schema": {"type": "string", "description": words}}
    return {200: {"model": model, "content": {"text/event-stream": events}}}
