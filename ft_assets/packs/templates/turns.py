"""The assistant's turns in a rendering without marks: each is what follows the generation prompt.

What the prompt is, renderings of prefixes of the conversation say; the ``<think>`` with which some prompts end counts
as the turn's, as in TRL's marks, since many templates show it only before some answers. Where the whole conversation
shows a turn otherwise than its prefix does, its visible text is the anchor (``rewritten.py``).

Prefixes of a long conversation would together take squared time, so there the prefix of a turn is rendered without
most of the messages before it, and what it adds is found again in the whole rendering; ever fewer turns are compared
with their whole prefix.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ft_assets.packs.templates.rewritten import OPENED, end_of_rewritten, start_behind_previous, visible
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

    def turns(self, *, first: int = 0, last_only: bool = False) -> "list[Span]":
        """The turns of the messages from the ``first`` one on, in order, or only the last of them.

        Raises BadBase, naming ``where``, if one of these cannot be told.
        """
        chosen = [index for index in range(first, len(self._messages)) if self._messages[index]["role"] == "assistant"]
        chosen = chosen[-1:] if last_only else chosen
        if len(self._messages) > _SHORT and len(chosen) > 1:
            try:
                turns = self._nearby(chosen)
            except UserError:
                # Whose fault it is, whole prefixes say.
                turns = None
            if turns is not None:
                return turns
        return [self._turn(index) for index in chosen]

    def _turn(self, index: int) -> "Span":
        before = self.opening(self._messages[:index])
        start = len(before) if self._text.startswith(before) else self._start_behind_previous(index, before)
        through = self._render(self._messages[: index + 1])
        end = self._common_length(through, self._text)
        return self._until(index, start, end, through[end:])

    def _until(self, index: int, start: int, end: int, rest: str) -> "Span":
        """The turn of a message that begins at ``start``.

        Its own prefix agrees with the text up to ``end``, and the ``rest`` of it does not.
        """
        content = self._find_content(index, start)
        calls = self._messages[index].get("tool_calls")
        shown = content is not None and content[0] < content[1]
        # Behind a text nothing but the end of the turn follows, but of calls all have to be there.
        whole = (shown and not calls) or self.closes(rest)
        if content is not None and start <= end and content[1] <= end and whole:
            return start, end
        if content is not None and shown and not calls and not self._text[start : content[0]].strip():
            # Some templates write a turn otherwise when it is the last; then its text follows the prompt at once.
            return start, self._end_of_content(content)
        return start, self._end_of_rewritten(index, start, content)

    def closes(self, rest: str) -> bool:
        """Whether what a prefix shows more than the text is nothing but the end of a conversation."""
        return not self._template.control.sub("", rest).strip()

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

    def _edges(self, index: int, previous: int, start: int) -> "tuple[int, int, str] | None":
        """Where a turn begins, how far its prefix agrees with the text, and the rest of the prefix.

        ``start`` is where the ``previous`` turn begins.
        """
        cut = self._cut(previous)
        if cut is None:
            return None
        left = [*self._messages[: cut[0]], *self._messages[cut[1] :]]
        gone = cut[1] - cut[0]
        earlier = self.opening(left[: previous - gone])
        before = self.opening(left[: index - gone])
        added = before[len(earlier) :]
        if not before.startswith(earlier) or not self._text.startswith(added, start):
            return None
        begin = start + len(added)
        through = self._render(left[: index + 1 - gone])
        near = before + self._text[begin : begin + len(through) + _BEHIND]
        length = self._common_length(through, near)
        return begin, begin + length - len(before), through[length:]

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
        """Where the text first shows the visible content of a message behind ``start``: from its first letter on.

        Up to its end; white space behind it may be missing. Found by marks around it, as a short content occurs in
        many places.
        """
        content = visible(self._messages[index])
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
        free = self._free()
        return dict(self._shown(chosen, free)) if free else {}

    def _free(self) -> list[str]:
        """Marks that no text of the row uses, as many as ``_shown`` takes; none where too few are left."""
        free = [mark for mark in MARKS if mark not in self._text][: 2 + _DIGITS]
        return free if len(free) == 2 + _DIGITS else []

    def places(self, index: int, messages: "Messages", text: str, *, prompt: bool = False) -> "list[Span]":
        """Where ``text``, the rendering of some first ``messages``, shows the visible content of one of them."""
        free = self._free()
        shown = [dict(message) for message in messages]
        inner = visible(shown[index]).strip()
        if not free or not inner:
            return []
        opening, closing, *digits = free
        shown[index]["content"] = _around(str(shown[index]["content"]), opening, closing)
        try:
            pieces = re.split(f"([{opening}{closing}])", self._render(shown, prompt=prompt))
        except UserError:
            return []
        spans = _spans(pieces, digits).get(0, [])
        return spans if "".join(pieces[::2]).startswith(text) else []

    def _shown(self, chosen: Sequence[int], marks: Sequence[str]) -> "Iterator[tuple[int, list[Span]]]":
        opening, closing, *digits = marks
        shown = [dict(message) for message in self._messages]
        for index in chosen:
            if visible(shown[index]).strip():
                number = "".join(digits[index >> place & 3] for place in range(0, index.bit_length(), 2))
                shown[index]["content"] = _around(str(shown[index]["content"]), opening + number, closing + number)
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

    def _start_behind_previous(self, index: int, before: str) -> int:
        start = start_behind_previous(self, self._messages, index, self._text, before)
        if start is None:
            raise self._no_turns(index, "without its own generation prompt")
        return start

    def _end_of_rewritten(self, index: int, start: int, content: "Span | None") -> int:
        """The end of a turn that the text shows otherwise than its own prefix."""
        through = self._render(self._messages[: index + 1])
        end = end_of_rewritten(
            self, self._template.control, self._messages, index, (start, content), self._text, through
        )
        if end is None:
            raise self._no_turns(index, "differently depending on what follows")
        return end

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

    def opening(self, messages: "Messages") -> str:
        """The rendering of a prefix with its generation prompt, up to a ``<think>`` that the prompt ends with."""
        before = self._render(messages, prompt=True)
        opened = OPENED.search(before)
        if opened is None:
            return before
        without = self._render(messages)
        return before[: opened.start()] if before[: opened.start()].startswith(without) else before

    def _render(self, messages: "Messages", *, prompt: bool = False) -> str:
        return self._template.render(messages, where=self._where, tools=self._tools, add_generation_prompt=prompt)

    def _no_turns(self, index: int, how: str) -> BadBase:
        return BadBase(
            f"the chat template renders message {index + 1} {how}, so the assistant's tokens cannot be told",
            where=f"{self._template.name}, {self._where}",
            remedy="Name a copy of this template in the recipe's chat_template that renders the same and has "
            "{% generation %} marks around the assistant's text; or set packing.learn to last_assistant, if it is not "
            "the last turn.",
        )


def _around(content: str, opening: str, closing: str) -> str:
    """``content`` with marks around its visible part, without white space around that."""
    shown = visible({"role": "assistant", "content": content})
    inner = shown.strip()
    marked = f"{opening}{inner}{closing}"
    return content[: len(content) - len(shown)] + shown.replace(inner, marked, 1)


def _spans(pieces: Sequence[str], digits: Sequence[str]) -> "dict[int, list[Span]]":
    """Of each message the spans between its marks: ``pieces`` are texts and numbered marks in turn."""
    edges: dict[int, list[int]] = {}
    lengths = itertools.accumulate(len(piece) for piece in pieces[::2])
    for mark, place in zip(pieces[1::2], lengths, strict=False):
        number = sum(digits.index(digit) << 2 * position for position, digit in enumerate(mark[1:]))
        edges.setdefault(number, []).append(place)
    return {number: list(zip(places[::2], places[1::2], strict=False)) for number, places in edges.items()}
