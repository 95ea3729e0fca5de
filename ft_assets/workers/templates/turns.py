"""The assistant's turns in a rendering without marks: each is the text after the generation prompt.

Renderings of prefixes of the conversation show the prompt; a ``<think>`` at its end counts as the turn's, as in TRL's
marks, since many templates show it only before some answers. If the whole conversation renders a turn differently from
its prefix (thoughts dropped, emptied or rewritten), its visible content, after the last ``</think>``, is the anchor.
The text before it may be nothing, or thoughts that are empty or the message's own, and the text after it must be what
the turn's own prefix shows there.

All prefixes of a long conversation would take quadratic time, so there a turn's prefix is rendered without most of the
messages before it, and the text that it adds is searched for in the whole rendering; ever fewer turns are compared with
their whole prefix.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from ft_assets.workers.templates.marks import located
from ft_assets.workers.templates.probes import Probes
from ft_assets.workers.templates.rendering import Messages, Span, Tools
from ft_assets.workers.templates.thoughts import OPENED, own_thoughts
from ft_resources.errors import BadBase, UserError

_CLOSE = "</think>"
_BLOCK = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
# Conversations of up to this many messages are rendered prefix by prefix.
_SHORT = 16
# A long conversation is cut within this many messages of its beginning and before a turn, where the roles match.
_BEGINNING, _BEFORE = 12, 16
# Characters; more than any control token that begins in the compared text.
_MARGIN = 1000


class Renders(Protocol):
    """The interface of a chat template."""

    name: str
    control: re.Pattern[str]

    @property
    def probes(self) -> Probes:
        """What the template does with any conversation."""

    def render(
        self, messages: Messages, *, where: str, tools: Tools = None, add_generation_prompt: bool = False
    ) -> str:
        """The conversation as text."""


class TurnFinder:
    """Finds the turns of one conversation in ``text``, the template's rendering of it."""

    def __init__(self, template: Renders, messages: Messages, tools: Tools, text: str, where: str) -> None:
        self._template, self._messages, self._tools = template, messages, tools
        self._text, self._where = text, where

    def turns(self, *, first: int = 0, last_only: bool = False) -> list[Span]:
        """The turns of the messages from the ``first`` one on, in order, or only the last of them.

        Raises BadBase, naming ``where``, if one of these cannot be located.
        """
        chosen = [index for index in range(first, len(self._messages)) if self._messages[index]["role"] == "assistant"]
        chosen = chosen[-1:] if last_only else chosen
        if len(self._messages) > _SHORT and len(chosen) > 1:
            try:
                turns = self._nearby(chosen)
            except UserError:
                # Whole prefixes show the cause.
                turns = None
            if turns is not None:
                return turns
        return [self._turn(index) for index in chosen]

    def _turn(self, index: int) -> Span:
        before = self._opening(self._messages[:index])
        start = len(before) if self._text.startswith(before) else self._start_after_previous(index, before)
        through = self._through(self._messages[: index + 1])
        end = self._common_length(through, self._text)
        return self._until(index, start, end, through[end:])

    def _until(self, index: int, start: int, end: int, rest: str) -> Span:
        """The turn of a message that begins at ``start``.

        Its own prefix agrees with the text up to ``end``, and the ``rest`` of it does not.
        """
        content = self._find_content(index, start)
        calls = self._messages[index].get("tool_calls")
        shown = content is not None and content[0] < content[1]
        # After a text only the end of the turn follows, but calls must all be there.
        whole = (shown and not calls) or self._closes(rest)
        if content is not None and start <= end and content[1] <= end and whole:
            return start, end
        if content is not None and shown and not calls and not self._text[start : content[0]].strip():
            # Some templates render a turn differently when it is the last; then its text directly follows the prompt.
            return start, self._end_of_content(content)
        return start, self._end_of_rewritten(index, start, content)

    def _closes(self, rest: str) -> bool:
        """Whether the prefix's text beyond the whole rendering is only the end of a conversation."""
        return not self._template.control.sub("", rest).strip()

    def _nearby(self, chosen: Sequence[int]) -> list[Span] | None:
        """The turns by prefixes that lack most earlier messages; None if a whole prefix contradicts them."""
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
        """Start of a turn, end of the text's agreement with its prefix, and the rest of the prefix.

        ``start`` is the start of the ``previous`` turn.
        """
        cut = self._cut(previous)
        if cut is None:
            return None
        left = [*self._messages[: cut[0]], *self._messages[cut[1] :]]
        gone = cut[1] - cut[0]
        earlier = self._opening(left[: previous - gone])
        before = self._opening(left[: index - gone])
        added = before[len(earlier) :]
        if not before.startswith(earlier) or not self._text.startswith(added, start):
            return None
        begin = start + len(added)
        through = self._through(left[: index + 1 - gone])
        near = before + self._text[begin : begin + len(through) + _MARGIN]
        length = self._common_length(through, near)
        return begin, begin + length - len(before), through[length:]

    def _cut(self, index: int) -> Span | None:
        """Messages before ``index`` that may be left out: the roles around the cut occur in this order elsewhere."""
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

    def _find_content(self, index: int, start: int) -> Span | None:
        """First span after ``start`` of a message's visible content in the text, starting with its first letter.

        Up to its end; white space after it may be missing. Found by marks around it, as a short content may occur
        repeatedly.
        """
        content = _visible(self._messages[index])
        inner = content.strip()
        if not inner:
            return start, start
        padding = content[content.find(inner) + len(inner) :]
        found = next((span for span in self._marked.get(index, ()) if span[0] >= start), None)
        if found is None:
            # The template checks how a content begins or ends, and marks would change the result.
            first = self._text.find(inner, start)
            if first < 0:
                return None
            found = first, first + len(inner)
        return found[0], found[1] + len(padding) * self._text.startswith(padding, found[1])

    @cached_property
    def _marked(self) -> dict[int, list[Span]]:
        """Spans of the assistant messages' visible contents in the text; those that marks would change are missing."""
        chosen = [index for index, message in enumerate(self._messages) if message["role"] == "assistant"]
        shown = {index: _visible(self._messages[index]) for index in chosen}
        return located(self._render, self._messages, shown, self._text)

    def _only_place(self, index: int, messages: Messages, text: str, *, prompt: bool = False) -> Span | None:
        """The span of a message's visible content in ``text``, the rendering of some first ``messages``; None if there
        are several, or none is found."""
        shown = {index: _visible(messages[index])}
        found = located(lambda marked: self._render(marked, prompt=prompt), messages, shown, text).get(index, [])
        return found[0] if len(found) == 1 else None

    def _start_after_previous(self, index: int, before: str) -> int:
        """Start of a turn if the text up to there differs from ``before``, its prefix with a prompt.

        Earlier turns are rendered differently; the previous message and the text from it to the turn are not.
        """
        earlier = [message["role"] for message in self._messages[:index]]
        if "assistant" in earlier and earlier[-1] != "assistant":
            whole = self._only_place(index - 1, self._messages, self._text)
            # ``before`` may lack an opening of thoughts that the rendering has.
            part = self._only_place(index - 1, self._messages[:index], before, prompt=True)
            if whole and part and self._text.startswith(before[part[1] :], whole[1]):
                return whole[1] + len(before) - part[1]
        raise self._no_turns(index, "without its own generation prompt")

    def _end_of_rewritten(self, index: int, start: int, content: Span | None) -> int:
        """The end of a turn that the text renders differently from its own prefix."""
        through = self._through(self._messages[: index + 1])
        end = self._end_by_anchor(index, start, content, through)
        if end is None:
            raise self._no_turns(index, "differently depending on what follows")
        return end

    def _end_by_anchor(self, index: int, start: int, content: Span | None, through: str) -> int | None:
        message, text = self._messages[index], self._text
        inner = _visible(message).strip()
        if not inner:
            # Calls, or nothing at all: the text after the thoughts is the same in both.
            before = self._opening(self._messages[:index])
            if not through.startswith(before):
                return None
            tail = through[_after_thoughts(through, len(before), message) :]
            return self._end_of_agreement(_after_thoughts(text, start, message), tail)
        if content is None:
            return None
        if not (
            _is_thoughts(text[start : content[0]], message) or self._thoughts_left_out(index, start, content, through)
        ):
            return None
        if not message.get("tool_calls") and self._template.control.match(text, content[1]):
            return content[1]
        own = self._only_place(index, self._messages[: index + 1], through)
        return None if own is None else self._end_of_agreement(content[0] + len(inner), through[own[1] :])

    def _thoughts_left_out(self, index: int, start: int, content: Span, through: str) -> bool:
        """Whether ``through``, the turn's own prefix, differs before the content only by the message's thoughts, with
        which it begins: a header of their own, as gpt-oss's channel of analysis, is theirs."""
        before, thoughts = self._opening(self._messages[:index]), own_thoughts(self._messages[index])
        own = self._only_place(index, self._messages[: index + 1], through)
        if own is None or not thoughts or not through.startswith(before):
            return False
        shown, first = self._text[start : content[0]], through[len(before) : own[0]]
        return first.endswith(shown) and thoughts in first[: len(first) - len(shown)]

    def _end_of_agreement(self, place: int, tail: str) -> int | None:
        """End of the common part of ``tail`` and the text at ``place``; None if more than the end of a conversation is
        missing."""
        rest = self._text[place : place + len(tail)]
        length = next((at for at, (a, b) in enumerate(zip(tail, rest, strict=False)) if a != b), len(rest))
        return place + length if self._closes(tail[length:]) else None

    def _end_of_content(self, content: Span) -> int:
        return content[1]

    def _common_length(self, through: str, text: str) -> int:
        """Length of the common prefix of ``through`` and ``text``, not counting a control token that agrees only
        partly.

        Some templates close a whole conversation specially, so the rendering of a part is not quite a prefix.
        """
        if text.startswith(through):
            return len(through)
        length = next((i for i, (a, b) in enumerate(zip(through, text, strict=False)) if a != b), len(text))
        tokens = self._template.control.finditer(text)
        return next((m.start() for m in tokens if m.start() < length < m.end()), length)

    def _opening(self, messages: Messages) -> str:
        """The rendering of a prefix with its generation prompt, up to a ``<think>`` that the prompt ends with."""
        before = self._render(messages, prompt=True)
        opened = OPENED.search(before)
        if opened is None:
            return before
        without = self._through(messages)
        return before[: opened.start()] if before[: opened.start()].startswith(without) else before

    def _through(self, messages: Messages) -> str:
        """The rendering of a prefix up to the end of its last turn."""
        return self._render(messages).removesuffix(self._template.probes.appended)

    def _render(self, messages: Messages, *, prompt: bool = False) -> str:
        return self._template.render(messages, where=self._where, tools=self._tools, add_generation_prompt=prompt)

    def _no_turns(self, index: int, how: str) -> BadBase:
        return BadBase(
            f"the chat template renders message {index + 1} {how}, so the assistant's tokens cannot be located",
            where=f"{self._template.name}, {self._where}",
            remedy="Name a copy of this template in the recipe's chat_template that renders the same and has "
            "{% generation %} marks around the assistant's text; or set packing.learn to last_assistant, if it is not "
            "the last turn.",
        )


def _visible(message: Mapping[str, Any]) -> str:
    """A message's content; an assistant's without its thoughts."""
    content = str(message.get("content") or "")
    return content.rpartition(_CLOSE)[2] if message["role"] == "assistant" else content


def _is_thoughts(shown: str, message: Mapping[str, Any]) -> bool:
    """Whether ``shown`` is nothing, empty thoughts or the message's own thoughts."""
    own = str(message.get("content") or "").rpartition(_CLOSE)[0]
    found = _BLOCK.fullmatch(shown)
    verbatim = shown.strip() == f"{own}{_CLOSE}".strip()
    return not shown.strip() or verbatim or (found is not None and found[1].strip() in own)


def _after_thoughts(text: str, start: int, message: Mapping[str, Any]) -> int:
    """Where ``text`` continues after the thoughts, if any, at the beginning ``start`` of a turn."""
    found = _BLOCK.match(text, start)
    if found is not None and _is_thoughts(found[0], message):
        return found.end()
    return len(text) - len(text[start:].lstrip())
