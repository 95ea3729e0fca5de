"""A conversation as a template renders it: messages in, text with the assistant's turns out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ft_resources.errors import BadBase, BadData

Span = tuple[int, int]
"""Characters ``start .. end`` of a rendering."""
Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]] | None
"""Definitions of the tools that the assistant may call, as JSON; None without tools."""


class TemplateFailed(BadBase):
    """A template that fails on a conversation, where one that refuses it would say so."""


NotRendered = (BadData, TemplateFailed)
"""What a template raises for a conversation that it does not render."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendering:
    """A conversation as text.

    Args:
        text: byte for byte what the template renders, but for ``changes``.
        turns: spans that the assistant wrote, in order; adjacent spans are merged.
        quoted: spans inside messages that spell a control token and must stay plain text.
        changes: spans of the template's own text that are others in ``text``, in order, with their lengths there.
    """

    text: str
    turns: list[Span]
    quoted: list[Span]
    changes: tuple[tuple[int, int, int], ...] = ()

    def moved(self, spans: Sequence[Span]) -> list[Span]:
        """Where spans of the template's own text are in ``text``; those that were changed are missing."""
        kept = [each for each in spans if all(each[1] <= start or end <= each[0] for start, end, _ in self.changes)]
        longer = [
            sum(length - (end - start) for start, end, length in self.changes if end <= first) for first, _ in kept
        ]
        return [(start + more, end + more) for (start, end), more in zip(kept, longer, strict=True)]
