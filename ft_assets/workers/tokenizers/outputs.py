"""A model's output, from token ids to thoughts and answer: in evaluations, suites, judges and servers alike."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from ft_assets.workers.templates.outputs import Output, OutputParts
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.tokenizers.growing_text import GrowingText

# Tokens at the end of a prompt, more than any opening of thoughts has.
_ENDING = 32


class OutputReader:
    """Takes outputs apart as ``template`` puts them together.

    Args:
        tokenizer: of the ``tokenizers`` library.
    """

    def __init__(self, tokenizer: Any, template: ChatTemplate) -> None:
        self._tokenizer, self._control, self._form = tokenizer, template.control, template.probes.output

    def read(self, prompt: Sequence[int], ids: Sequence[int]) -> Output:
        """The parts of the output ``ids`` to the token ids ``prompt``, without control tokens and white space around
        them. Thoughts that do not end leave no answer."""
        text = self._decoded(ids, controls=True)
        parts = OutputParts(self._form, opened=self._opens(prompt))
        thoughts, answer = parts.take(text, ends=True)
        thoughts = self._control.sub("", thoughts).strip()
        if parts.thinks:
            return Output(thoughts, "", unfinished=True)
        if len(answer) == len(text):
            return Output(thoughts, self._decoded(ids).strip())
        # The marks are control tokens of some templates and text of others, so their end is looked for by its place.
        start = len(text) - len(answer)
        first = bisect_left(range(len(ids)), start, key=lambda count: len(self._decoded(ids[:count], controls=True)))
        rest = self._decoded(ids[:first], controls=True)[start:]
        return Output(thoughts, (rest + self._decoded(ids[first:])).strip())

    def stream(self, prompt: Sequence[int]) -> "OutputStream":
        """The parts of an output as it is written."""
        return OutputStream(self._tokenizer, OutputParts(self._form, opened=self._opens(prompt)), self._control)

    def answer_start(self, prompt: str, written: str) -> int:
        """Where the answer begins in the text ``written`` after the text ``prompt``; its length if there is none."""
        parts = OutputParts(self._form, opened=self._is_open(prompt))
        return len(written) - len(parts.take(written, ends=True)[1])

    def _opens(self, prompt: Sequence[int]) -> bool:
        return bool(self._form.opening) and self._is_open(self._decoded(prompt[-_ENDING:], controls=True))

    def _is_open(self, prompt: str) -> bool:
        return bool(self._form.opening) and prompt.rstrip().endswith(self._form.opening.rstrip())

    def _decoded(self, ids: Sequence[int], *, controls: bool = False) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=not controls))


class OutputStream:
    """One output as it is written; ``lead`` is the number of its tokens so far that are before the answer's first."""

    def __init__(self, tokenizer: Any, parts: OutputParts, control: Any) -> None:
        self._parts, self._control = parts, control
        self._read = self.lead = 0
        self._text = GrowingText(tokenizer, controls=True)

    @property
    def plain(self) -> bool:
        """Whether the answer has begun, and nothing stood before it."""
        return self._parts.plain

    def add(self, ids: Sequence[int], *, ends: bool) -> tuple[str, str]:
        """The thoughts and the answer that ``ids`` add; the last of them if the output ``ends``."""
        thoughts = answer = ""
        left = list(ids)
        while not self._parts.answers:
            # One by one, as the answer's own tokens are read without control tokens.
            first, left = left[:1], left[1:]
            last = ends and not left
            thought, begun = self._parts.take(self._text.add(first, ends=last), ends=last)
            self._read += len(first)
            if not begun and self._parts.between:
                self.lead = self._read
            thoughts += self._control.sub("", thought)
            answer += self._control.sub("", begun)
            if self._parts.answers:
                self._text = self._text.without_controls()
            elif not left:
                return thoughts, answer
        return thoughts, answer + self._text.add(left, ends=ends)
