"""Answers of models as OpenAI's clients expect them, whole and in the parts of a stream."""

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ft_assets.server.stop_strings import Part
from ft_resources.serving.server import Token


class Answer:
    """One answer.

    Args:
        model: as it was asked for.
        digest: the first 16 digits of the content digest of the adapter that answers. It is told as the fingerprint,
            and within the id, so that feedback on an answer says of which adapter it is.
        prompt_tokens: number of the prompt's tokens.
        with_usage: whether a stream ends with the usage; its other parts then say that they have none.

    ``written`` counts the tokens that were written, the one that ended the answer included.
    """

    prefix: ClassVar[str]
    kind: ClassVar[str]
    part_kind: ClassVar[str]

    def __init__(self, model: str, digest: str, prompt_tokens: int, *, with_usage: bool) -> None:
        self.id = f"{self.prefix}-{digest}-{uuid.uuid4().hex}"
        self._head = {
            "id": self.id,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": f"fp_{digest}",
        }
        self._prompt_tokens, self._with_usage = prompt_tokens, with_usage
        self.written = 0

    def whole(self, parts: Sequence[Part]) -> dict[str, Any]:
        """All of the answer."""
        said = self._whole(parts, [token for part in parts for token in part.tokens])
        choice = {"index": 0, **said, "finish_reason": parts[-1].finish_reason}
        return {"object": self.kind, **self._head, "choices": [choice], "usage": self._usage()}

    def begin(self) -> list[dict[str, Any]]:
        """What a stream begins with."""
        return []

    def part(self, part: Part) -> list[dict[str, Any]]:
        """The parts of a stream that tell ``part``."""
        raise NotImplementedError

    def end(self) -> list[dict[str, Any]]:
        """What a stream ends with."""
        if not self._with_usage:
            return []
        return [{"object": self.part_kind, **self._head, "choices": [], "usage": self._usage()}]

    def _whole(self, parts: Sequence[Part], tokens: Sequence[Token]) -> dict[str, Any]:
        raise NotImplementedError

    def _told(self, said: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, **said, "finish_reason": finish_reason}
        usage = {"usage": None} if self._with_usage else {}
        return {"object": self.part_kind, **self._head, "choices": [choice], **usage}

    def _usage(self) -> dict[str, int]:
        asked, written = self._prompt_tokens, self.written
        return {"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written}


class ChatAnswer(Answer):
    """Of ``/v1/chat/completions``. ``word`` gives a token's text, if log-probabilities are told; else it is None.

    Thoughts are in ``reasoning_content``, as DeepSeek's API and vLLM have them; OpenAI's own tells none.
    """

    prefix, kind, part_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(
        self,
        model: str,
        digest: str,
        prompt_tokens: int,
        *,
        with_usage: bool,
        word: Callable[[int], str] | None = None,
    ) -> None:
        super().__init__(model, digest, prompt_tokens, with_usage=with_usage)
        self._word = word

    def begin(self) -> list[dict[str, Any]]:
        return [self._told({"delta": {"role": "assistant", "content": "", "refusal": None}, "logprobs": None})]

    def part(self, part: Part) -> list[dict[str, Any]]:
        told = []
        if part.thoughts:
            told.append(self._told({"delta": {"reasoning_content": part.thoughts}, "logprobs": None}))
        if part.text or (part.tokens and self._word):
            told.append(self._told({"delta": {"content": part.text}, "logprobs": self._logprobs(part.tokens)}))
        if part.finish_reason:
            told.append(self._told({"delta": {}, "logprobs": None}, part.finish_reason))
        return told

    def _whole(self, parts: Sequence[Part], tokens: Sequence[Token]) -> dict[str, Any]:
        message = {"role": "assistant", "content": _text(parts), "refusal": None}
        if thoughts := "".join(part.thoughts for part in parts):
            message["reasoning_content"] = thoughts
        return {"message": message, "logprobs": self._logprobs(tokens)}

    def _logprobs(self, tokens: Sequence[Token]) -> dict[str, Any] | None:
        if self._word is None:
            return None
        content = []
        for token in tokens:
            top = sorted(token.top.items(), key=lambda each: (-each[1], each[0]))
            told = [_likely(self._word(number), value) for number, value in top]
            content.append({**_likely(self._word(token.id), token.logprob), "top_logprobs": told})
        return {"content": content, "refusal": None}


class CompletionAnswer(Answer):
    """Of ``/v1/completions``."""

    prefix, kind, part_kind = "cmpl", "text_completion", "text_completion"

    def part(self, part: Part) -> list[dict[str, Any]]:
        if not part.text and not part.finish_reason:
            return []
        return [self._told({"text": part.text, "logprobs": None}, part.finish_reason)]

    def _whole(self, parts: Sequence[Part], tokens: Sequence[Token]) -> dict[str, Any]:
        return {"text": _text(parts), "logprobs": None}


def _text(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts)


def _likely(word: str, logprob: float | None) -> dict[str, Any]:
    # The bytes of half a letter are not known from its text.
    return {"token": word, "logprob": logprob, "bytes": None if "\ufffd" in word else list(word.encode())}
