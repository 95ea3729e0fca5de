"""What is asked of a model, in OpenAI's words.

A setting that would change the answer and that no server here has is refused, unless its value is the one that changes
nothing. What only labels or speeds up a request (``metadata``, ``prompt_cache_key``) is taken and not used; ``user``
says whose answers come from one adapter while two share a line's traffic; with ``store`` a line may keep the
conversation.
"""

from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ft_assets.server.wording import unsupported

_Label = Annotated[str, Field(max_length=512)]
_Stop = Annotated[str, Field(min_length=1, max_length=500)]
# Of any vocabulary; which ids there are says the server.
_MOST_ID = 2**31


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _only(*values: Any) -> BeforeValidator:
    """Of a setting's values those that change nothing, the first of which is advised; null is another."""

    def check(value: Any) -> Any:
        if value is None or any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in values):
            return value
        raise unsupported(orjson.dumps(values[0]).decode() if values else "null")

    return BeforeValidator(check)


def _one_prompt(value: Any) -> Any:
    """A text or token ids, out of the list that OpenAI's clients may put it into."""
    found = value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list) else value
    if isinstance(found, str):
        return found
    if isinstance(found, list) and found and all(type(each) is int and 0 <= each < _MOST_ID for each in found):
        return found
    raise ValueError(f"must be one text, or the token ids of one (0 to {_MOST_ID - 1})")


_Nothing = Annotated[None, _only()]
_One = Annotated[Literal[1] | None, _only(1)]
_Zero = Annotated[float | None, _only(0)]
_Empty = Annotated[list[Any] | None, _only([])]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class StreamOptions(_Body):
    """``stream_options``."""

    include_usage: bool | None = None
    # It asks for padding, whose lack changes no answer.
    include_obfuscation: bool | None = None


class Asked(_Body):
    """Settings of both kinds of request."""

    model: Annotated[str, Field(min_length=1, max_length=300)]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    stop: Annotated[list[_Stop], Field(max_length=4), BeforeValidator(_as_list)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: _One = None
    presence_penalty: _Zero = None
    frequency_penalty: _Zero = None
    logit_bias: Annotated[dict[str, Any] | None, _only({})] = None
    user: _Label | None = None
    safety_identifier: _Label | None = None
    metadata: dict[_Label, _Label] | None = None
    service_tier: Literal["auto", "default"] | None = None
    prompt_cache_key: _Label | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None

    @property
    def asker(self) -> str:
        """Who asks, as the request says; empty where it does not."""
        return self.safety_identifier or self.user or ""

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        return tuple(self.stop or ())

    @property
    def with_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def most(self) -> int | None:
        """Most tokens of the answer; None for what the context leaves."""
        return self.max_tokens

    @property
    def logprobs_of(self) -> int | None:
        """Of how many likeliest tokens log-probabilities are told, beside each token's own; None for none at all."""
        return None


class Message(_Body):
    """A turn of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    # Parts are read as those of a dataset are.
    content: str | list[dict[str, Any]] | None = None
    name: _Label | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: _Label | None = None
    # Answers have these, and clients send answers back as they came.
    refusal: _Nothing = None
    annotations: _Empty = None
    audio: _Nothing = None
    function_call: _Nothing = None
    reasoning_content: str | None = None

    @property
    def turn(self) -> dict[str, Any]:
        """The turn without what was not said, and without the thoughts that came before it."""
        said = self.model_dump(include={"role", "content", "name", "tool_calls", "tool_call_id"}, exclude_none=True)
        if said.get("tool_calls") == []:
            del said["tool_calls"]
        # An answer of nothing.
        empty = {"content": ""} if self.role == "assistant" and "tool_calls" not in said else {}
        return {**empty, **said}


class ChatBody(Asked):
    """``POST /v1/chat/completions``."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: _Empty = None
    tool_choice: Annotated[Literal["none", "auto"] | None, _only("none", "auto")] = None
    parallel_tool_calls: bool | None = None
    functions: _Empty = None
    function_call: Annotated[Literal["none", "auto"] | None, _only("none", "auto")] = None
    response_format: Annotated[dict[str, Any] | None, _only({"type": "text"})] = None
    modalities: Annotated[list[str] | None, _only(["text"])] = None
    audio: _Nothing = None
    prediction: _Nothing = None
    moderation: _Nothing = None
    reasoning_effort: _Nothing = None
    prompt_cache_options: _Nothing = None
    verbosity: Annotated[Literal["medium"] | None, _only("medium")] = None
    web_search_options: _Nothing = None
    store: bool | None = None

    @model_validator(mode="after")
    def _agrees(self) -> "ChatBody":
        if self.max_tokens and self.max_completion_tokens and self.max_tokens != self.max_completion_tokens:
            raise ValueError("max_tokens and max_completion_tokens differ: send one of them")
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: send it as true")
        return self

    @property
    def most(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def logprobs_of(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The messages as turns."""
        return [message.turn for message in self.messages]


class CompletionBody(Asked):
    """``POST /v1/completions``: a text to continue, or its token ids."""

    prompt: Annotated[str | list[int], BeforeValidator(_one_prompt)]
    best_of: _One = None
    echo: Annotated[bool | None, _only(False)] = None
    logprobs: _Nothing = None
    suffix: Annotated[str | None, _only("")] = None

    @property
    def most(self) -> int | None:
        # OpenAI's default.
        return self.max_tokens or 16

    @property
    def ids(self) -> list[int]:
        """The token ids of the prompt; empty where it is a text."""
        return [] if isinstance(self.prompt, str) else self.prompt

    @property
    def text(self) -> str:
        """The text of the prompt; empty where it has token ids."""
        return self.prompt if isinstance(self.prompt, str) else ""
