"""A model's output taken apart as its template puts it together: thoughts, and the answer behind them.

The marks come from renderings of small conversations (``Probes.output``), so they are those of Qwen3
(``<think>… </think>``), of gpt-oss (``<|channel|>analysis<|message|>…``), of Command A (``<|START_THINKING|>…``) and of
templates that nobody has seen here.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputForm:
    """The marks of a template, without the white space around them.

    Args:
        opens: begins thoughts.
        closes: ends them.
        leads: what may stand before an answer, with thoughts or without, the longest first.
        opening: the end of a generation prompt that opens thoughts; "" if prompts of the template open none.
    """

    opens: str
    closes: str
    leads: tuple[str, ...]
    opening: str


@dataclass(frozen=True, slots=True)
class Output:
    """The parts of an output; ``unfinished`` if its thoughts do not end, and then the answer is ""."""

    thoughts: str
    answer: str
    unfinished: bool = False


class OutputParts:
    """Takes one output apart as its text grows, with the control tokens shown.

    Args:
        opened: whether the prompt opened thoughts.
    """

    def __init__(self, form: OutputForm, *, opened: bool) -> None:
        self._form = form
        self._held = ""
        # White space after a mark belongs to the mark.
        self._after_mark = opened
        self.thinks = opened
        """Whether thoughts are open."""
        self.answers = False
        """Whether the answer has begun: all that follows belongs to it."""

    @property
    def plain(self) -> bool:
        """Whether the answer has begun, and nothing stood before it."""
        return self.answers and not self._after_mark

    @property
    def between(self) -> bool:
        """Whether all that was taken so far stands before the answer."""
        return self.thinks or (self._after_mark and not self._held.strip())

    def take(self, text: str, *, ends: bool) -> tuple[str, str]:
        """The thoughts and the answer that ``text`` adds; what may become a mark is held back, unless the output
        ``ends``."""
        self._held += text
        thoughts = ""
        while not self.answers:
            if self.thinks:
                thoughts += self._thought(ends=ends)
                if self.thinks:
                    return thoughts, ""
            elif not self._begin(ends=ends):
                return thoughts, ""
        answer, self._held = self._held, ""
        return thoughts, answer

    def _thought(self, *, ends: bool) -> str:
        """The thoughts that are held, as far as they are sure to be thoughts."""
        before, found, after = self._held.partition(self._form.closes)
        if found or ends:
            self._held, self.thinks = after, not found
            told, self._after_mark = before.lstrip() if self._after_mark else before, bool(found)
            return told.rstrip()
        if self._after_mark:
            self._held = self._held.lstrip()
        whole, closes = self._held.rstrip(), self._form.closes
        kept = next((n for n in range(len(closes) - 1, 0, -1) if whole.endswith(closes[:n])), 0)
        told = whole[: len(whole) - kept].rstrip()
        self._held = self._held[len(told) :]
        self._after_mark &= not told
        return told

    def _begin(self, *, ends: bool) -> bool:
        """Take the next mark off the beginning of what is held. False if more text is needed to know it."""
        form, head = self._form, self._held.lstrip()
        marks = (form.opens, form.closes, *form.leads)
        if not ends and (not head or any(mark.startswith(head) and mark != head for mark in marks)):
            return False
        mark = next((mark for mark in marks if head.startswith(mark)), None)
        if mark is None:
            self._held = head if self._after_mark else self._held
            self.answers = True
            return True
        self._held, self._after_mark = head.removeprefix(mark), True
        self.thinks = mark == form.opens
        return True
