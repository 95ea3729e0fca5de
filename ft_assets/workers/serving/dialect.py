"""Requests and answers over HTTP in vLLM's format: OpenAI's completions, with token ids."""

import time
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ft_assets.workers.tokenizers.growing_text import GrowingText
from ft_resources.errors import NotFound, NotIdentified, TooManyRequests, UserError, in_sentences
from ft_resources.serving.errors import BadAdapter, BadRequest, NameTaken
from ft_resources.serving.server import Reason, Sampling, Token

Count = Annotated[int, Field(ge=0, le=20)]
_STATUS: tuple[tuple[type[UserError], int, str], ...] = (
    (NotIdentified, 401, "invalid_api_key"),
    (NotFound, 404, "model_not_found"),
    (NameTaken, 409, "name_taken"),
    (BadAdapter, 400, "bad_adapter"),
    (TooManyRequests, 503, "busy"),
)


class Body(BaseModel):
    """A request's JSON. Unknown settings are refused, as ignoring one would change the answer silently."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StreamOptions(Body):
    """``stream_options``."""

    include_usage: bool = False


class CompletionBody(Body):
    """``POST /v1/completions``."""

    model: str
    prompt: list[int]
    max_tokens: int = Field(default=16, ge=1)
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    stop_token_ids: tuple[int, ...] = ()
    logprobs: Count | None = None
    prompt_logprobs: Count | None = None
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool = False
    n: Literal[1] = 1

    @property
    def sampling(self) -> Sampling:
        """How the answer is written."""
        return Sampling(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            stop_token_ids=self.stop_token_ids,
            logprobs=self.logprobs,
        )


class LoadBody(Body):
    """``POST /v1/load_lora_adapter``."""

    lora_name: str = Field(min_length=1, max_length=300)
    lora_path: str


class UnloadBody(Body):
    """``POST /v1/unload_lora_adapter``."""

    lora_name: str


class Answer:
    """An answer as it grows, and its parts in vLLM's format."""

    def __init__(self, body: CompletionBody, tokenizer: Any) -> None:
        self._body, self._tokenizer = body, tokenizer
        self._head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": body.model,
        }
        self._written = 0
        self._text = GrowingText(tokenizer)

    def part(self, tokens: Sequence[Token], reason: Reason | None, scores: Sequence[Token] = ()) -> dict[str, Any]:
        """The next ``tokens``. Text is held back while its last character is incomplete."""
        ids = [token.id for token in tokens]
        self._written += len(ids)
        # The token that stops an answer is reported, but is not part of its text.
        text = self._text.add(ids[:-1] if reason == "stop" else ids, ends=reason is not None)
        choice: dict[str, Any] = {
            "index": 0,
            "text": text,
            "logprobs": None if self._body.logprobs is None else self._logprobs(tokens),
            "finish_reason": reason,
            "stop_reason": None,
        }
        if self._body.prompt_logprobs is not None:
            choice["prompt_logprobs"] = [self._scored(token) for token in scores]
        if self._body.return_token_ids:
            choice["token_ids"] = ids
            if not self._body.stream:
                choice["prompt_token_ids"] = self._body.prompt
        return {**self._head, "choices": [choice]}

    def usage(self) -> dict[str, int]:
        """Tokens so far."""
        asked, written = len(self._body.prompt), self._written
        return {"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written}

    def last(self) -> dict[str, Any]:
        """The last part of a stream, which has the usage."""
        return {**self._head, "choices": [], "usage": self.usage()}

    def _logprobs(self, tokens: Sequence[Token]) -> dict[str, Any]:
        return {
            "tokens": [self._label(token.id) for token in tokens],
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [{self._label(number): value for number, value in token.top.items()} for token in tokens],
        }

    def _scored(self, token: Token) -> dict[str, Any] | None:
        """One token of the prompt: the likeliest there and itself, by id. None for the first: nothing predicts it."""
        if token.logprob is None:
            return None
        return {
            str(number): {"logprob": value, "decoded_token": self._tokenizer.decode([number])}
            for number, value in {**token.top, token.id: token.logprob}.items()
        }

    def _label(self, number: int) -> str:
        if self._body.return_tokens_as_token_ids:
            return f"token_id:{number}"
        return str(self._tokenizer.decode([number]))


def error_answer(error: UserError) -> tuple[int, dict[str, Any]]:
    """Status and body for ``error``, in OpenAI's format."""
    if isinstance(error, BadRequest):
        status, code = 400, error.code
    else:
        status, code = next(((each, code) for kind, each, code in _STATUS if isinstance(error, kind)), (500, "failed"))
    kind = "invalid_request_error" if status < 500 else "server_error"
    message = in_sentences(error.what, error.remedy)
    return status, {"error": {"message": message, "type": kind, "param": error.where or None, "code": code}}
