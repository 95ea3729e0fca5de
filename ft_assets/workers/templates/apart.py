"""Control tokens are the template's own: none arises where a message meets another one or a literal.

A message that spells a whole control token is text, and detected separately. But ``…<|`` before ``user|>…`` is a token
that neither part spells alone. Hardly any row has a text with such an edge; for those that do, a second rendering shows
who wrote each control token's characters.
"""

import bisect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ft_assets.workers.templates.marks import free_marks, without_marks
from ft_assets.workers.templates.rendering import Messages, Rendering, Span, Tools
from ft_assets.workers.templates.symbolic import Atoms, SymbolicTemplate
from ft_assets.workers.templates.symbols import Atom, NotProvable, Symbol, Witness
from ft_assets.workers.templates.template import ChatTemplate, mapped, strings
from ft_resources.errors import BadData, UserError

# Templates split contents at these.
_THOUGHTS = re.compile("(</?think>)")


def require_apart(
    template: ChatTemplate, rendering: Rendering, controls: Sequence[Span], messages: Messages, tools: Tools, where: str
) -> None:
    """Raise BadData, naming ``where``, if one of the ``controls`` of a rendering is partly the row's.

    Roles are the template's: ``<|{{ message.role }}|>`` is a token that it writes. The origin of a short text inside a
    control token cannot be determined if the template branches on it; it counts as the template's.
    """
    texts = frozenset(rendering.text[start:end] for start, end in controls)
    touching = sorted({word for word in _words(messages, tools) if any(_touching(word, texts))})
    meeting = any(_overlaps(controls, span) for span in rendering.quoted)
    if touching and not meeting:
        meeting = _Second(template, rendering.text, controls, messages, tools, where).meets(touching, texts)
    if meeting:
        raise BadData(
            "the edge of a message and the text beside it together spell a control token",
            where=f"{where}, {template.name}",
            remedy="Remove the part of a control token from the edge of the message, or name another template in the "
            "recipe's chat_template.",
        )


def _words(messages: Messages, tools: Tools) -> Iterator[str]:
    for message in messages:
        yield from strings({key: value for key, value in message.items() if key != "role"})
    for tool in tools or ():
        yield from strings(tool)


def _touching(word: str, texts: frozenset[str]) -> Iterator[str]:
    """The parts of a word that a template may render and that begin, end or are inside one of ``texts``."""
    heads, tails = _halves(texts)
    for part in _THOUGHTS.split(word)[::2]:
        core = part.strip()
        if core and (core.endswith(heads) or core.startswith(tails) or any(core in text for text in texts)):
            yield core


@lru_cache(maxsize=64)
def _halves(texts: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    heads = sorted({text[:cut] for text in texts for cut in range(1, len(text))})
    tails = sorted({text[cut:] for text in texts for cut in range(1, len(text))})
    return tuple(heads), tuple(tails)


def _overlaps(controls: Sequence[Span], span: Span) -> bool:
    """Whether a span shares a character with one of ``controls``, which are in order and disjoint."""
    place = bisect.bisect_right(controls, span[0], key=lambda control: control[1])
    return place < len(controls) and controls[place][0] < span[1]


@dataclass(slots=True)
class _Second:
    """A second rendering of a row, with marks next to the edges of some of its texts."""

    template: ChatTemplate
    text: str
    controls: Sequence[Span]
    messages: Messages
    tools: Tools
    where: str
    lost: list[str] = field(default_factory=list)
    """Texts whose edges the template checks, so that marks would change its rendering."""

    def meets(self, words: Sequence[str], texts: frozenset[str]) -> bool:
        """Whether a character of one of the ``words`` is in a control token."""
        free = free_marks("".join(_words(self.messages, self.tools)) + self.text, 2)
        if not free:
            self.lost += words
        elif any(_overlaps(self.controls, (place, place + 1)) for place in self._places(words, texts, *free)):
            return True
        if any(message.get("content") in self.lost for message in self.messages):
            spans = _contents(self.template, self.messages, self.tools, self.text)
            if spans is not None:
                contents = {message.get("content") for message in self.messages}
                self.lost = [word for word in self.lost if word not in contents]
                if any(_overlaps(self.controls, span) for span in spans):
                    return True
        return any(self._adjoins(core) for word in self.lost for core in _touching(word, texts))

    def _places(self, words: Sequence[str], texts: frozenset[str], before: str, after: str) -> Iterator[int]:
        """Positions in the text of the first or the last character of ``words``."""
        chosen = set(words)

        def change(word: str) -> str:
            return _marked(word, texts, before, after) if word in chosen else word

        try:
            traced = self.template.render(
                [
                    {key: value if key == "role" else mapped(value, change) for key, value in message.items()}
                    for message in self.messages
                ],
                where=self.where,
                tools=[mapped(tool, change) for tool in self.tools] if self.tools else None,
            )
        except UserError:
            traced = ""
        plain, marks = without_marks(traced, f"[{before}{after}]")
        if plain == self.text:
            yield from (place - (mark == after) for mark, place in marks)
        elif len(words) > 1:
            middle = len(words) // 2
            yield from self._places(words[:middle], texts, before, after)
            yield from self._places(words[middle:], texts, before, after)
        else:
            self.lost += words

    def _adjoins(self, core: str) -> bool:
        """Whether ``core``, which reaches beyond a control token, stands where it overlaps one."""
        for start, end in self.controls:
            for cut in range(start + 1, end):
                if len(core) > cut - start and self.text.endswith(core, 0, cut):
                    return True
                if len(core) > end - cut and self.text.startswith(core, cut):
                    return True
        return False


def _marked(word: str, texts: frozenset[str], before: str, after: str) -> str:
    """``word`` with marks before the last and after the first character of its touching parts."""
    parts = _THOUGHTS.split(word)
    cores = set(_touching(word, texts))
    for number, part in enumerate(parts[::2]):
        core = part.strip()
        if core in cores:
            marked = f"{core[0]}{after}{core[1:-1]}{before}{core[-1]}" if core[1:] else f"{before}{core}"
            parts[2 * number] = part.replace(core, marked, 1)
    return "".join(parts)


def _contents(template: ChatTemplate, messages: Messages, tools: Tools, text: str) -> list[Span] | None:
    """Spans of contents in ``text``, from a rendering with symbols in their place; None without a proof."""
    contents = {index: each["content"] for index, each in enumerate(messages) if isinstance(each.get("content"), str)}
    atoms, witness = Atoms(), Witness(contents)
    symbolic = _symbolic(template)
    symbolic.observe(atoms, witness)
    shown: list[Mapping[str, Any]] = [
        {**each, "content": Symbol((Atom(index),), witness)} if index in contents else each
        for index, each in enumerate(messages)
    ]
    try:
        canonical = symbolic.render(shown, where="", tools=tools)
    except NotProvable:
        return None
    parts: list[str] = []
    spans: list[Span] = []
    length = 0
    for character in canonical:
        atom = atoms.at(character)
        parts.append(character if atom is None else atom.of(contents[atom.index]))
        if atom is not None:
            spans.append((length, length + len(parts[-1])))
        length += len(parts[-1])
    return spans if "".join(parts) == text else None


@lru_cache(maxsize=2)
def _symbolic(template: ChatTemplate) -> SymbolicTemplate:
    return SymbolicTemplate(template)
