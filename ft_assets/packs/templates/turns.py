"""The assistant's turns in a rendering without marks: each is what follows the generation prompt.

What the prompt is, renderings of prefixes of the conversation say. Those of a long conversation would together take
squared time, so there the prefix of a turn is rendered without most of the messages before it, and what it adds is
found again in the whole rendering; ever fewer turns are compared with their whole prefix.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ft_resources.errors import BadBase, UserError

if TYPE_CHECKING:
    from ft_assets.packs.templates.template import ChatTemplate, Messages, Span, Tools

# Unicode's noncharacters: never text, so they can mark places in a rendering.
MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]

_DIGITS = 4
# Conversations of so many messages are rendered prefix by prefix.
_SHORT = 16
# Among so many messages at its beginning and before a turn, a long conversation is cut where roles follow alike.
_BEGINNING, _BEFORE = 12, 16
# Characters; a control token that begins in what is compared is shorter.
_BEHIND = 1000


class TurnFinder:
    """Finds the turns of one conversation in ``text``, the template's rendering of it."""

    def __init__(self, template: "ChatTemplate", messages: "Messages", tools: "Tools", text: str, where: str) -> None:
        self._template, self._messages, self._tools = template, messages, tools
        self._text, self._where = text, where

    def turns(self) -> "list[Span]":
        """The turns in order. Raises BadBase, naming ``where``, if they cannot be told."""
        chosen = [index for index, message in enumerate(self._messages) if message["role"] == "assistant"]
        if len(self._messages) > _SHORT:
            try:
                turns = self._nearby(chosen)
            except UserError:
                # Whose fault it is, whole prefixes say.
                turns = None
            if turns is not None:
                return turns
        return [self._turn(index) for index in chosen]

    def _turn(self, index: int) -> "Span":
        before = self._render(self._messages[:index], prompt=True)
        if not self._text.startswith(before):
            raise self._no_turns(index, "without its own generation prompt")
        through = self._render(self._messages[: index + 1])
        return self._until(index, len(before), self._common_length(through, self._text))

    def _until(self, index: int, start: int, end: int) -> "Span":
        """The turn of a message that begins at ``start``, where its own prefix agrees with the text up to ``end``."""
        content = self._find_content(index, start)
        if content is None or content[1] > end:
            # Some templates write a turn otherwise when it is the last; then its text follows the prompt at once.
            calls = self._messages[index].get("tool_calls")
            if content is None or self._text[start : content[0]].strip() or calls:
                raise self._no_turns(index, "differently depending on what follows")
            end = self._end_of_content(content)
        return start, end

    def _nearby(self, chosen: Sequence[int]) -> "list[Span] | None":
        """The turns by prefixes that lack most of what came before; None if a whole prefix says otherwise."""
        turns: list[Span] = []
        for place, index in enumerate(chosen):
            edges = self._edges(index, chosen[place - 1], turns[-1][0]) if place else None
            turn = None if edges is None else self._until(index, *edges)
            if turn is None or not place & (place - 1) or place + 1 == len(chosen):
                whole = self._turn(index)
                if turn is not None and whole != turn:
                    return None
                turn = whole
            turns.append(turn)
        return turns

    def _edges(self, index: int, previous: int, start: int) -> "Span | None":
        """Where a turn begins and how far its prefix agrees with the text, if the ``previous`` begins at ``start``."""
        cut = self._cut(previous)
        if cut is None:
            return None
        left = [*self._messages[: cut[0]], *self._messages[cut[1] :]]
        gone = cut[1] - cut[0]
        earlier = self._render(left[: previous - gone], prompt=True)
        before = self._render(left[: index - gone], prompt=True)
        added = before[len(earlier) :]
        if not before.startswith(earlier) or not self._text.startswith(added, start):
            return None
        begin = start + len(added)
        through = self._render(left[: index + 1 - gone])
        near = before + self._text[begin : begin + len(through) + _BEHIND]
        return begin, begin + self._common_length(through, near) - len(before)

    def _cut(self, index: int) -> "Span | None":
        """Messages before ``index`` that may be missing: around the cut, roles follow each other as elsewhere."""
        for end in range(index - 2, max(index - _BEFORE, 1), -1):
            start = self._beginnings.get(self._joint(end), end)
            if start < end:
                return start, end
        return None

    @cached_property
    def _beginnings(self) -> dict[tuple[object, ...], int]:
        places = range(min(_BEGINNING, len(self._messages) - 1), 1, -1)
        return {self._joint(place): place for place in places}

    def _joint(self, index: int) -> tuple[object, ...]:
        beside = self._messages[index - 1 : index + 1]
        return tuple((message["role"], bool(message.get("tool_calls"))) for message in beside)

    def _find_content(self, index: int, start: int) -> "Span | None":
        """Where the text first shows the content of a message behind ``start``: from its first letter to its end.

        White space behind it may be missing. Found by marks around it, as a short content occurs in many places.
        """
        content = str(self._messages[index].get("content") or "")
        inner = content.strip()
        if not inner:
            return start, start
        padding = content[content.find(inner) + len(inner) :]
        found = next((span for span in self._marked.get(index, ()) if span[0] >= start), None)
        if found is None:
            # The template asks how a content begins or ends, and marks would change the answer.
            first = self._text.find(inner, start)
            if first < 0:
                return None
            found = first, first + len(inner)
        return found[0], found[1] + len(padding) * self._text.startswith(padding, found[1])

    @cached_property
    def _marked(self) -> "dict[int, list[Span]]":
        """Where the text shows the contents of the assistant's messages; missing where marks around one change it."""
        chosen = [index for index, message in enumerate(self._messages) if message["role"] == "assistant"]
        free = [mark for mark in MARKS if mark not in self._text][: 2 + _DIGITS]
        return dict(self._shown(chosen, free)) if len(free) == 2 + _DIGITS else {}

    def _shown(self, chosen: Sequence[int], marks: Sequence[str]) -> "Iterator[tuple[int, list[Span]]]":
        opening, closing, *digits = marks
        shown = [dict(message) for message in self._messages]
        for index in chosen:
            content = str(shown[index].get("content") or "")
            if inner := content.strip():
                number = "".join(digits[index >> place & 3] for place in range(0, index.bit_length(), 2))
                shown[index]["content"] = content.replace(inner, f"{opening}{number}{inner}{closing}{number}", 1)
        try:
            traced = self._render(shown)
        except UserError:
            traced = ""
        pieces = re.split(f"([{opening}{closing}][{''.join(digits)}]*)", traced)
        if "".join(pieces[::2]) == self._text:
            yield from _spans(pieces, digits).items()
        elif len(chosen) > 1:
            middle = len(chosen) // 2
            yield from self._shown(chosen[:middle], marks)
            yield from self._shown(chosen[middle:], marks)

    def _end_of_content(self, content: "Span") -> int:
        return content[1]

    def _common_length(self, through: str, text: str) -> int:
        """How far ``through`` and ``text`` agree, not counting a control token that only begins alike.

        Some templates close a whole conversation specially, so the rendering of a part is not quite a prefix.
        """
        if text.startswith(through):
            return len(through)
        length = next((i for i, (a, b) in enumerate(zip(through, text, strict=False)) if a != b), len(text))
        tokens = self._template.control.finditer(text)
        return next((m.start() for m in tokens if m.start() < length < m.end()), length)

    def _render(self, messages: "Messages", *, prompt: bool = False) -> str:
        return self._template.render(messages, where=self._where, tools=self._tools, add_generation_prompt=prompt)

    def _no_turns(self, index: int, how: str) -> BadBase:
        return BadBase(
            f"the chat template renders message {index + 1} {how}, so the assistant's tokens cannot be told",
            where=f"{self._template.name}, {self._where}",
            remedy="Name a template with {% generation %} marks around the assistant's text in the recipe.",
        )


def _spans(pieces: Sequence[str], digits: Sequence[str]) -> "dict[int, list[Span]]":
    """Of each message the spans between its marks: ``pieces`` are texts and numbered marks in turn."""
    edges: dict[int, list[int]] = {}
    lengths = itertools.accumulate(len(piece) for piece in pieces[::2])
    for mark, place in zip(pieces[1::2], lengths, strict=False):
        number = sum(digits.index(digit) << 2 * position for position, digit in enumerate(mark[1:]))
        edges.setdefault(number, []).append(place)
    return {number: list(zip(places[::2], places[1::2], strict=False)) for number, places in edges.items()}
