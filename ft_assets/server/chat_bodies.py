"""What is asked of a model, in OpenAI's words.

A setting that would change the answer and that no server here has is refused, unless its value is the one that changes
nothing. What only labels a request (``metadata``) is taken and not used; ``user`` says whose answers come from one
adapter while two share a line's traffic; with ``store`` a line may keep the conversation.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

_Label = Annotated[str, Field(max_length=512)]
_Stop = Annotated[str, Field(min_length=1, max_length=500)]
_Zero = Annotated[float, Field(ge=0, le=0)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class StreamOptions(_Body):
    """``stream_options``."""

    include_usage: bool | None = None


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
    n: Literal[1] | None = None
    presence_penalty: _Zero | None = None
    frequency_penalty: _Zero | None = None
    logit_bias: Annotated[dict[str, Any], Field(max_length=0)] | None = None
    user: _Label | None = None

    @property
    def asker(self) -> str:
        """Who asks, as the request says; empty where it does not."""
        return self.user or ""

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


class TextFormat(_Body):
    """``response_format`` of answers without a form."""

    type: Literal["text"]


class ChatBody(Asked):
    """``POST /v1/chat/completions``."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: Annotated[list[Any], Field(max_length=0)] | None = None
    tool_choice: Literal["none"] | None = None
    response_format: TextFormat | None = None
    modalities: list[Literal["text"]] | None = None
    store: bool | None = None
    service_tier: Literal["auto", "default"] | None = None
    metadata: dict[_Label, _Label] | None = None
    safety_identifier: _Label | None = None
    prompt_cache_key: _Label | None = None

    @model_validator(mode="after")
    def _agrees(self) -> "ChatBody":
        if self.max_tokens and self.max_completion_tokens and self.max_tokens != self.max_completion_tokens:
            raise ValueError("max_tokens and max_completion_tokens differ")
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs")
        return self

    @property
    def asker(self) -> str:
        return self.safety_identifier or self.user or ""

    @property
    def most(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def logprobs_of(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The messages, without what was not said."""
        return [message.model_dump(exclude_none=True) for message in self.messages]


class CompletionBody(Asked):
    """``POST /v1/completions``: a text to continue, or its token ids."""

    prompt: str | Annotated[list[int], Field(min_length=1)] | Annotated[list[str], Field(min_length=1, max_length=1)]
    best_of: Literal[1] | None = None
    echo: Literal[False] | None = None
    logprobs: None = None
    suffix: None = None

    @property
    def most(self) -> int | None:
        # OpenAI's default.
        return self.max_tokens or 16

    @property
    def ids(self) -> list[int]:
        """The token ids of the prompt; empty where it is a text."""
        return [each for each in self.prompt if isinstance(each, int)]

    @property
    def text(self) -> str:
        """The text of the prompt; empty where it has token ids."""
        return "".join(each for each in self.prompt if isinstance(each, str))
