"""Thoughts of models that reason before they answer: where a template has them, and what a prompt opens.

An answer must be learned after the text that it will be generated after. Some templates end a generation prompt with
empty thoughts (Gemma 4's larger models: ``<|channel>thought\\n<channel|>``) or open ones (DeepSeek R1: ``<think>\\n``),
and render an answer without thoughts as if nothing had been opened. Training puts back what the prompt ends with; where
it is open, the model learns to close it at once.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from ft_assets.workers.templates.rendering import Messages, Rendering, Span

_OPEN, _CLOSE = "<think>", "</think>"
# What opens thoughts, what closes them, and what separates them from the answer.
_SPELLINGS = (
    (_OPEN, _CLOSE, "\n\n"),
    ("<|channel>thought", "<channel|>", ""),
    ("<|START_THINKING|>", "<|END_THINKING|>", ""),
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", "\n"),
)
_EMPTY = "|".join(rf"{re.escape(opens)}\s*{re.escape(closes)}\s*" for opens, closes, _ in _SPELLINGS)
_OPENS = re.compile("|".join(re.escape(opens) for opens, _, _ in _SPELLINGS))
_CLOSED = re.compile(rf"(?:{'|'.join(re.escape(closes) for _, closes, _ in _SPELLINGS)})\s*\Z")
OPENED = re.compile(rf"(?:{_EMPTY}|(?:{_OPENS.pattern})\s*)\Z")
"""The end of a generation prompt that opens thoughts, or leaves them empty."""


@dataclass(frozen=True, slots=True)
class Thought:
    """The ``end`` of a generation prompt, which an answer without thoughts lacks.

    Args:
        close: what is learned to close it; "" if it is closed.
        headers: what may precede it in a turn whose marks include the turn's header, longest first.
        asks: what precedes it in a prompt, after a question or a tool's result.
    """

    end: str
    close: str
    headers: tuple[str, ...]
    asks: tuple[str, ...]

    def place(self, text: str, start: int) -> int | None:
        """Where it belongs in a turn that begins at ``start`` of ``text``; None if the turn has it, or if its prompt
        has none, as after a tool's result in some templates."""
        place = start + next((len(header) for header in self.headers if text.startswith(header, start)), 0)
        # A template with marks may leave a line empty before them.
        before = (place - n for n in range(3) if not text[place - n : place].strip())
        asked = next((end for end in before if text.endswith(self.asks, 0, end)), None)
        return None if _OPENS.match(text, place) else asked

    def closing(self, text: str, place: int) -> str:
        """``close``, unless the turn at ``place`` closes it."""
        return "" if text.startswith(tuple(closes for _, closes, _ in _SPELLINGS), place) else self.close


def missing_thought(
    prompts: Sequence[str], said: Sequence[str], between: str, control: re.Pattern[str]
) -> Thought | None:
    """The end of generation ``prompts`` that a turn may lack; None if the first prompt does not end with thoughts.

    Args:
        said: the content of each prompt's last message.
        between: what the template itself renders between the first prompt and an answer without thoughts.
        control: matches every control token.
    """
    found = OPENED.search(prompts[0])
    if found is None:
        return None
    end, headers, asks = found.group(), set(), set()
    for prompt, last in zip(prompts, said, strict=True):
        if prompt.endswith(end):
            header = prompt.removesuffix(end).rpartition(last)[2]
            parts = {header, *(header[token.start() :] for token in control.finditer(header))} - {""}
            headers |= parts
            asks.add(min(parts, key=len, default=""))
    close = next((shut + then for opens, shut, then in _SPELLINGS if end.startswith(opens)), "")
    close = "" if closes_thoughts(end) else between if close.strip() in between else close
    return Thought(end, close, tuple(sorted(headers, key=len, reverse=True)), tuple(sorted(asks)))


def closes_thoughts(prompt: str) -> bool:
    """Whether a generation ``prompt`` says that the answer has no thoughts."""
    return _CLOSED.search(prompt) is not None


def with_thought(
    rendering: Rendering, turns: Sequence[Span], thought: Thought | None, messages: Messages
) -> tuple[Rendering, list[Span]]:
    """The ``rendering`` of ``messages`` with ``thought`` in each of the ``turns`` that lacks it; and the turns' new
    spans, without their header and the end of the prompt.

    The turns are the assistant's last ones, in order. Where thoughts are open, a turn whose own thoughts the template
    dropped is left as it is: it must not learn to close them.
    """
    text = rendering.text
    places: dict[int, int] = {}
    added: dict[int, str] = {}
    if thought is not None:
        spoken = [message for message in messages if message["role"] == "assistant"]
        for (start, stop), message in zip(turns, spoken[-len(turns) :] if turns else (), strict=False):
            place, own = thought.place(text, start), own_thoughts(message)
            shown = bool(own) and place is not None and own in text[place:stop]
            if place is not None and (shown or not (own and thought.close)):
                places[start], added[place] = place, "" if shown else thought.closing(text, place)
    if thought is None or not places:
        return rendering, list(turns)
    edges = sorted(places.values())
    closings = [added[place] for place in edges]
    longer = [0, *accumulate(len(thought.end) + len(closing) for closing in closings)]

    def start_of(place: int) -> int:
        return place + longer[bisect_right(edges, place)]

    def end_of(place: int) -> int:
        return place + longer[bisect_left(edges, place)]

    def moved(spans: Sequence[Span]) -> list[Span]:
        return [
            (end_of(places[start]) + len(thought.end) if start in places else start_of(start), end_of(stop))
            for start, stop in spans
        ]

    pieces = [text[start:stop] for start, stop in pairwise([0, *edges, len(text)])]
    whole = pieces[0] + "".join(
        thought.end + closing + piece for closing, piece in zip(closings, pieces[1:], strict=True)
    )
    quoted = [(start_of(start), end_of(stop)) for start, stop in rendering.quoted]
    return Rendering(text=whole, turns=moved(rendering.turns), quoted=quoted), moved(turns)


def own_thoughts(message: Mapping[str, Any]) -> str:
    """The thoughts at the beginning of an assistant's content; "" if there are none."""
    content = message.get("content") or ""
    pieces = content.split(_CLOSE, 1)
    if len(pieces) > 1:
        return str(pieces[0]).strip().removeprefix(_OPEN).strip()
    # For a symbol, this makes it a condition that its contents open no thoughts: ``Thought.place`` depends on it.
    content.split(_OPEN, 1)
    return ""


def with_thoughts_apart(message: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An assistant's ``message`` with the thoughts at the beginning of its content in the field ``name``; unchanged
    if ``name`` is ""."""
    if not name or message["role"] != "assistant":
        return message
    # A symbol can only answer whether it contains the end of thoughts.
    pieces = (message.get("content") or "").split(_CLOSE, 1)
    if len(pieces) == 1 or not pieces[0].lstrip().startswith(_OPEN):
        return message
    thoughts = pieces[0].lstrip().removeprefix(_OPEN).strip("\n")
    return {**message, "content": pieces[1].lstrip("\n"), name: thoughts}
