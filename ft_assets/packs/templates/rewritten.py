"""Turns that a template shows otherwise in the whole conversation than at its end: thoughts dropped or written anew.

What stays is the visible content, behind the last ``</think>``. The text in front of it may be nothing, or thoughts
that are empty or the message's own; what follows it has to be what the turn's own prefix shows there.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ft_assets.packs.templates.template import Messages, Span

# The end of a generation prompt that opens thoughts, or leaves them empty.
OPENED = re.compile(r"<think>\s*(?:</think>\s*)?\Z")
_CLOSE = "</think>"
_BLOCK = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)


class Prefixes(Protocol):
    """What is asked of the conversation's renderings."""

    def places(self, index: int, messages: "Messages", text: str, *, prompt: bool = False) -> "list[Span]":
        """Where a rendering of ``messages`` shows the visible content of one; none where nobody can say."""

    def opening(self, messages: "Messages") -> str:
        """The rendering of ``messages`` with the generation prompt, up to a ``<think>`` that it ends with."""

    def closes(self, rest: str) -> bool:
        """Whether ``rest`` of a prefix is nothing but the end of a conversation."""


def visible(message: Mapping[str, Any]) -> str:
    """A message's content, of an assistant's what is behind its thoughts."""
    content = str(message.get("content") or "")
    return content.rpartition(_CLOSE)[2] if message["role"] == "assistant" else content


def start_behind_previous(prefixes: Prefixes, messages: "Messages", index: int, text: str, before: str) -> int | None:
    """Where a turn begins although the text is not as ``before``, its prefix with a prompt, up to there.

    Earlier turns are shown otherwise; the message before it and all that follows up to the turn are not.
    """
    if not index or messages[index - 1]["role"] == "assistant":
        return None
    whole = prefixes.places(index - 1, messages, text)
    # ``before`` may lack an opening of thoughts that the rendering has.
    part = prefixes.places(index - 1, messages[:index], before, prompt=True)
    if len(whole) != 1 or len(part) != 1:
        return None
    behind = before[part[0][1] :]
    return whole[0][1] + len(behind) if text.startswith(behind, whole[0][1]) else None


def end_of_rewritten(
    prefixes: Prefixes,
    control: re.Pattern[str],
    messages: "Messages",
    index: int,
    place: "tuple[int, Span | None]",
    text: str,
    through: str,
) -> int | None:
    """The end of a turn, of which ``place`` says where it starts and where its content is; None if it cannot be told.

    ``through`` is the rendering of the conversation up to this turn.
    """
    start, content = place
    message = messages[index]
    inner = visible(message).strip()
    if not inner:
        # Calls, or nothing at all: what follows the thoughts is the same in both.
        before = prefixes.opening(messages[:index])
        tail = through[_behind_thoughts(through, len(before), message) :] if through.startswith(before) else None
        return None if tail is None else _agreed(prefixes, text, _behind_thoughts(text, start, message), tail)
    if content is None or not _is_thoughts(text[start : content[0]], message):
        return None
    if not message.get("tool_calls") and control.match(text, content[1]):
        return content[1]
    own = prefixes.places(index, messages[: index + 1], through)
    if len(own) != 1:
        return None
    return _agreed(prefixes, text, content[0] + len(inner), through[own[0][1] :])


def _agreed(prefixes: Prefixes, text: str, place: int, tail: str) -> int | None:
    """Where the text stops showing ``tail`` at ``place``; None where more than the end of a conversation is missing."""
    rest = text[place : place + len(tail)]
    length = next((at for at, (a, b) in enumerate(zip(tail, rest, strict=False)) if a != b), len(rest))
    return place + length if prefixes.closes(tail[length:]) else None


def _is_thoughts(shown: str, message: Mapping[str, Any]) -> bool:
    """Whether ``shown`` is nothing, empty thoughts or the message's own ones."""
    own = str(message.get("content") or "").rpartition(_CLOSE)[0]
    found = _BLOCK.fullmatch(shown)
    verbatim = shown.strip() == f"{own}{_CLOSE}".strip()
    return not shown.strip() or verbatim or (found is not None and found[1].strip() in own)


def _behind_thoughts(text: str, start: int, message: Mapping[str, Any]) -> int:
    """Where ``text`` goes on behind the thoughts, if any, with which a turn begins at ``start``."""
    found = _BLOCK.match(text, start)
    if found is not None and _is_thoughts(found[0], message):
        return found.end()
    return len(text) - len(text[start:].lstrip())
