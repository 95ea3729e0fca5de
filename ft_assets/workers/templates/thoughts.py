"""Thoughts of models that reason before they answer: where a template has them, and what a prompt opens.

An answer must be learned after the text that it will be generated after. Some templates end a generation prompt with
empty thoughts (Gemma 4's larger models: ``<|channel>thought\\n<channel|>``) or open ones (DeepSeek R1: ``<think>\\n``),
and render an answer without thoughts as if nothing had been opened, or with thoughts that are empty in another spelling
(Nemotron 3: ``<think></think>``). Training puts what the prompt ends with in their place; where it is open, the model
learns to close it at once.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from ft_assets.workers.templates.outputs import OutputForm
from ft_assets.workers.templates.rendering import Messages, Rendering, Span

MARKS = _OPEN, _CLOSE = "<think>", "</think>"
"""Around the thoughts that rows have at the beginning of an assistant's content."""
_OTHERS = " And so on."
# What opens thoughts, what closes them, and what separates them from the answer.
_SPELLINGS = (
    (_OPEN, _CLOSE, "\n\n"),
    ("<|channel>thought", "<channel|>", ""),
    ("<|START_THINKING|>", "<|END_THINKING|>", ""),
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", "\n"),
)
_EMPTY = "|".join(rf"{re.escape(opens)}\s*{re.escape(closes)}\s*" for opens, closes, _ in _SPELLINGS)
_LEFT_EMPTY = re.compile(_EMPTY)
_OPENS = re.compile("|".join(re.escape(opens) for opens, _, _ in _SPELLINGS))
_CLOSES = tuple(closes for _, closes, _ in _SPELLINGS)
_PLAIN = re.compile(rf"(?:(?:{_OPENS.pattern})\s*)?(?:(?:{'|'.join(map(re.escape, _CLOSES))})\s*)?")
_CLOSED = re.compile(rf"(?:{'|'.join(map(re.escape, _CLOSES))})\s*\Z")
OPENED = re.compile(rf"(?:{_EMPTY}|(?:{_OPENS.pattern})\s*)\Z")
"""The end of a generation prompt that opens thoughts, or leaves them empty."""


@dataclass(frozen=True, slots=True)
class Thought:
    """The ``end`` of a generation prompt, which a turn may lack or spell otherwise.

    Args:
        plain: what the template itself writes in its place before an answer without thoughts.
        close: what is learned to close it; "" if it is closed.
        headers: what may precede it in a turn whose marks include the turn's header, longest first.
        asks: what precedes it in a prompt, after a question or a tool's result.
    """

    end: str
    plain: str
    close: str
    headers: tuple[str, ...]
    asks: tuple[str, ...]

    def in_turn(self, text: str, turn: Span, message: Mapping[str, Any]) -> "_Edit | None":
        """How ``turn`` of ``text`` gets it; None if its prompt has none, as after a tool's result in some templates, or
        if its own thoughts cannot stand behind it."""
        start, stop = turn
        place = start + next((len(header) for header in self.headers if text.startswith(header, start)), 0)
        # A template with marks may leave a line empty before them.
        before = (place - n for n in range(3) if not text[place - n : place].strip())
        asked = next((end for end in before if text.endswith(self.asks, 0, end)), None)
        if asked is None:
            return None
        place, own = asked, own_thoughts(message)
        after = place + len(self.plain) if text.startswith(self.plain, place) else place
        if own and own in text[place:stop]:
            opened = _OPENS.match(text, after)
            return _Edit(place, _after_blank(text, opened.end()) if opened else after, "")
        if own and self.close:
            # It must not learn to close thoughts that it had.
            return None
        if after == place and (empty := _LEFT_EMPTY.match(text, place)):
            after = empty.end()
        if after == place and _OPENS.match(text, place):
            return None
        return _Edit(place, after, "" if text.startswith(_CLOSES, after) else self.close)


@dataclass(frozen=True, slots=True)
class _Edit:
    """In place of the text from ``place`` to ``after`` stands the end of the prompt, which is not learned, and then
    ``close``, which is."""

    place: int
    after: int
    close: str


def _after_blank(text: str, place: int) -> int:
    return len(text) - len(text[place:].lstrip())


def missing_thought(
    prompts: Sequence[str], said: Sequence[str], answered: str, answer: str, control: re.Pattern[str]
) -> Thought | None:
    """The end of generation ``prompts`` that a turn may lack; None if the first prompt does not end with thoughts.

    Args:
        said: the content of each prompt's last message.
        answered: the rendering of the first prompt's conversation and an ``answer`` without thoughts.
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
    before, header = answered.rpartition(answer)[0], prompts[0].removesuffix(end)
    plain = before.removeprefix(header) if before.startswith(header) else ""
    if plain.strip() and (marks := _PLAIN.match(plain)):
        plain = marks.group()
    shut, then = next(((shut, then) for opens, shut, then in _SPELLINGS if end.startswith(opens)), ("", ""))
    close = plain[plain.index(shut) :] if shut and shut in plain else shut + then
    return Thought(
        end=end,
        plain=plain,
        close="" if closes_thoughts(end) else close,
        headers=tuple(sorted(headers, key=len, reverse=True)),
        asks=tuple(sorted(asks)),
    )


def output_form(plain: str, around: tuple[str, str] | None, *, opening: str) -> OutputForm:
    """The marks of a template's outputs.

    Args:
        plain: what it writes before an answer without thoughts, beside those that its prompt opens or leaves empty.
        around: what it writes before and after thoughts; None if it leaves thoughts out, and then the marks are those
            of its prompts, or the usual ones.
        opening: the end of a prompt that opens thoughts; "" if none does.
    """
    spelled = next((pair for pair in _SPELLINGS if opening.startswith(pair[0])), _SPELLINGS[0])
    opens, closes = around or (spelled[0], spelled[1])
    if opening and spelled[0] not in opens:
        opens, closes = spelled[0], spelled[1]
    # What a template writes before them stands before an answer without them as well.
    opens = next(reversed(_OPENS.findall(opens)), opens)
    lead = plain
    if shut := next((each for each in _CLOSES if each in closes), None):
        # What follows belongs to the answer, and stands before one without thoughts too.
        lead, closes = closes.partition(shut)[2], shut
    elif plain.strip() and closes.endswith(plain) and closes.removesuffix(plain).strip():
        closes = closes.removesuffix(plain)
    leads = {lead.strip(), _LEFT_EMPTY.sub("", plain).strip()} - {"", closes.strip()}
    return OutputForm(
        opens=opens.strip() or spelled[0],
        closes=closes.strip() or spelled[1],
        leads=tuple(sorted(leads, key=len, reverse=True)),
        opening=opening,
    )


def closes_thoughts(prompt: str) -> bool:
    """Whether a generation ``prompt`` says that the answer has no thoughts."""
    return _CLOSED.search(prompt) is not None


def with_thought(
    rendering: Rendering, turns: Sequence[Span], thought: Thought | None, messages: Messages
) -> tuple[Rendering, list[Span]]:
    """The ``rendering`` of ``messages`` with ``thought`` in each of the ``turns``; and the turns' new spans, without
    their header and the end of the prompt.

    The turns are the assistant's last ones, in order. Where thoughts are open, a turn whose own thoughts the template
    dropped is left as it is: it must not learn to close them.
    """
    text = rendering.text
    edits: dict[int, _Edit] = {}
    if thought is not None:
        spoken = [message for message in messages if message["role"] == "assistant"]
        for turn, message in zip(turns, spoken[-len(turns) :] if turns else (), strict=False):
            if edit := thought.in_turn(text, turn, message):
                edits[turn[0]] = edit
    if thought is None or not edits:
        return rendering, list(turns)
    end, ordered = thought.end, sorted(edits.values(), key=lambda edit: edit.place)
    places = [edit.place for edit in ordered]
    longer = [0, *accumulate(len(end + edit.close) - (edit.after - edit.place) for edit in ordered)]

    def start_of(place: int) -> int:
        return place + longer[bisect_right(places, place)]

    def end_of(place: int) -> int:
        return place + longer[bisect_left(places, place)]

    def moved(spans: Sequence[Span]) -> list[Span]:
        return [
            (end_of(edits[start].place) + len(end) if start in edits else start_of(start), end_of(stop))
            for start, stop in spans
        ]

    kept = pairwise([0, *(edge for edit in ordered for edge in (edit.place, edit.after)), len(text)])
    pieces = [text[start:stop] for start, stop in kept][::2]
    whole = pieces[0] + "".join(end + edit.close + piece for edit, piece in zip(ordered, pieces[1:], strict=True))
    # Of a token that a row spells in its own opening of thoughts, nothing is left.
    gone = [(edit.place, edit.after) for edit in ordered]
    quoted = [
        (start_of(start), end_of(stop))
        for start, stop in rendering.quoted
        if not any(place <= start < after for place, after in gone)
    ]
    changes = tuple((edit.place, edit.after, len(end + edit.close)) for edit in ordered)
    return Rendering(text=whole, turns=moved(rendering.turns), quoted=quoted, changes=changes), moved(turns)


def own_thoughts(message: Mapping[str, Any]) -> str:
    """The thoughts at the beginning of an assistant's content; "" if there are none."""
    content = message.get("content") or ""
    pieces = content.split(_CLOSE, 1)
    if len(pieces) > 1:
        return str(pieces[0]).strip().removeprefix(_OPEN).strip()
    # For a symbol, this makes it a condition that its contents open no thoughts: ``Thought.place`` depends on it.
    content.split(_OPEN, 1)
    return ""


def loses_thoughts(render: Callable[[Messages], str], messages: Messages, index: int) -> bool:
    """Whether the template leaves out the thoughts that a message of the assistant has: others make no difference."""
    if not own_thoughts(messages[index]):
        return False
    thoughts, closed, answer = str(messages[index]["content"]).partition(_CLOSE)
    other = {**messages[index], "content": f"{thoughts}{_OTHERS}{closed}{answer}"}
    return render([*messages[:index], other, *messages[index + 1 :]]) == render(messages)


def answer_of(content: str) -> str:
    """An assistant's ``content`` without the thoughts at its beginning, trimmed."""
    thoughts, closed, answer = content.partition(_CLOSE)
    return (answer if closed and thoughts.lstrip().startswith(_OPEN) else content).strip()


def with_own_thoughts(thoughts: str, answer: str) -> str:
    """An assistant's content with its ``thoughts`` at the beginning, as rows of a dataset have them."""
    return f"{_OPEN}\n{thoughts.strip()}\n{_CLOSE}\n\n{answer}" if thoughts.strip() else answer


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
