"""What is noted of a line's answers as they are told, and which requests are copied to a rollout's candidate."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ft_assets import api
from ft_assets.api import AnswerSeen, ConversationLog, Division, FoundModel
from ft_assets.server.answering import FAILURES, Question
from ft_assets.server.chat_answers import Answer
from ft_assets.server.context import Context
from ft_assets.server.shadows import Copy
from ft_assets.server.stop_strings import Part
from ft_resources.serving.fleet import ServedModel


@dataclass(frozen=True, kw_only=True)
class LineRequest:
    """One request to a line.

    Args:
        user: who asks.
        began: when, on the monotonic clock.
        ask: makes the same question for another adapter.
        stops: its stop strings.
        most: most tokens of the answer; None where the request does not say.
        turns: the conversation, where it may be kept with the answer; None where no text may be.
    """

    context: Context
    division: Division
    user: str
    began: float
    ask: Callable[[FoundModel], Question]
    stops: tuple[str, ...]
    most: int | None
    turns: Sequence[dict[str, Any]] | None

    async def noted(self, parts: AsyncIterator[Part], model: ServedModel, answer: Answer) -> AsyncIterator[Part]:
        """The parts of an answer; once it is complete, what is seen of it is kept."""
        text, thoughts, reason, own_end, valid = [], [], None, False, None
        try:
            async for part in parts:
                text.append(part.text)
                thoughts.append(part.thoughts)
                reason, own_end = part.finish_reason, self.has_own_end(part)
                yield part
        except FAILURES:
            self.failed(model, answer)
            raise
        seconds, said, log = time.monotonic() - self.began, "".join(text), self.context.outcomes.log
        api.note_answer(log, model, request=answer.id, text=said, seconds=seconds)
        if self.division.format is not None and own_end:
            # A large document takes its time, in which others are answered.
            grade = partial(api.note_format, log, model, self.division.format, request=answer.id, text=said)
            valid = await self.context.answering.prepared(grade)
        # Of an answer that was cut off nothing can be learned but to break off.
        if reason == "stop":
            whole = api.with_own_thoughts("".join(thoughts), said)
            self._keep(self.context.outcomes.conversations, model, answer.id, whole)
        seen = api.seen_of(said, seconds=seconds, tokens=answer.written, valid=valid)
        self._copy(model, answer.id, seen, seconds, said if reason == "stop" else None)

    def has_own_end(self, part: Part) -> bool:
        """Whether an answer with the last ``part`` was not broken off by the request's ``max_tokens``: what was has no
        format, and that is no fault of the model's."""
        return part.finish_reason == "stop" or self.most is None

    def failed(self, model: ServedModel, answer: Answer) -> None:
        """Note that no answer came, or no whole one."""
        api.note_failure(self.context.outcomes.log, model, request=answer.id)
        self._copy(model, answer.id, api.FAILED, time.monotonic() - self.began, None)

    def _copy(self, model: ServedModel, number: str, seen: AnswerSeen, seconds: float, whole: str | None) -> None:
        candidate = self.division.copied_to(self.user)
        if candidate is None:
            return
        log = self.context.outcomes.shadow_conversations
        production = None if whole is None else (model, whole)
        copy = Copy(
            candidate=candidate,
            incumbent=model,
            request=number,
            seen=seen,
            seconds=seconds,
            ask=self.ask,
            stops=self.stops,
            format=self.division.format,
            has_own_end=self.has_own_end,
            keep=None
            if self.turns is None
            else partial(self._keep, log, candidate.served, number, production=production),
        )
        self.context.shadows.offer(copy)

    def _keep(
        self,
        log: ConversationLog,
        model: ServedModel,
        number: str,
        text: str,
        *,
        production: tuple[ServedModel, str] | None = None,
    ) -> None:
        if self.turns is not None:
            api.keep_conversation(log, model, request=number, messages=self.turns, answer=text, production=production)
