"""Chat templates: a conversation becomes text, and we know which characters the assistant wrote.

Templates are untrusted Jinja and run in a sandbox. ``{% generation %}`` marks, as in transformers and TRL, say what
the assistant wrote; without them it is what follows the generation prompt (``turns.py``).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
from jinja2 import nodes

from ft_assets.packs.templates.sandbox import CLOSE, LIMITS, OPEN, LimitedEnvironment, Limits, WithoutEnd
from ft_assets.packs.templates.turns import MARKS, TurnFinder
from ft_resources.errors import BadBase, BadData

Span = tuple[int, int]
"""Characters ``start .. end`` of a rendering."""
Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]] | None
"""Definitions of the tools that the assistant may call, as JSON; None where it has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendering:
    """A conversation as text.

    Args:
        text: byte for byte what the template renders.
        turns: what the assistant wrote, in order; spans that touch are one.
        quoted: places inside messages that spell a control token and must stay plain text.
    """

    text: str
    turns: list[Span]
    quoted: list[Span]


class ChatTemplate:
    """One compiled template.

    Args:
        source: the Jinja text.
        name: for errors, such as ``chat_template of the recipe``.
        variables: the special tokens that templates refer to (``bos_token`` …).
        control: matches every string that the tokenizer reads as a control token.
    """

    def __init__(self, source: str, *, name: str, variables: Mapping[str, str], control: re.Pattern[str]) -> None:
        self.source, self.name, self.control = source, name, control
        self.variables = dict(variables)
        environment = self._environment()
        try:
            self._template = environment.from_string(source)
            tree = environment.parse(source)
        except jinja2.TemplateSyntaxError as error:
            raise BadBase(
                f"the chat template is not valid Jinja ({error.message})",
                where=f"{name}, line {error.lineno}",
                remedy="Correct the template, or name a working one in the recipe's chat_template.",
            ) from error
        except Exception as error:
            # Python's own limits: nesting, blocks, digits of a number.
            raise BadBase(
                f"the chat template cannot be compiled ({type(error).__name__})",
                where=name,
                remedy="Correct the template, or name a working one in the recipe's chat_template.",
            ) from None
        self.marked = any(name.name == OPEN for name in tree.find_all(nodes.Name))

    def render(
        self, messages: Messages, *, where: str, tools: Tools = None, add_generation_prompt: bool = False
    ) -> str:
        """The template's text for ``messages``. Raises BadData, naming ``where``, if the template refuses them."""
        return self._render(messages, tools, where, ("", ""), add_generation_prompt)

    def trace(
        self,
        messages: Messages,
        *,
        where: str,
        tools: Tools = None,
        with_turns: bool = True,
        first: int = 0,
        last_only: bool = False,
    ) -> Rendering:
        """``render`` with the quoted places and, unless ``with_turns`` is off, the assistant's turns.

        Without marks, only turns of messages from the ``first`` on are looked for, or only the last of them.
        Raises BadData, naming ``where``, for a conversation the template refuses, and BadBase for a template from
        which the assistant's turns cannot be told.
        """
        text = self.render(messages, where=where, tools=tools)
        words = [word for part in (*messages, *(tools or ())) for word in strings(part)]
        turns: list[Span] = []
        quoted: list[Span] = []
        if (self.marked and with_turns) or any(self.control.search(word) for word in words):
            turns, quoted = self._read_marks(messages, tools, text, "".join(words), where)
        if with_turns and not self.marked:
            turns = self._finder(messages, tools, text, where).turns(first=first, last_only=last_only)
        return Rendering(text=text, turns=list(_joined(turns)), quoted=quoted)

    def contents(self, messages: Messages, text: str, *, where: str, tools: Tools = None) -> list[Span]:
        """Where ``text``, the rendering of ``messages``, shows their contents without white space around them.

        In order, found by a second rendering with marks around them. A content that the template changes, or of which
        it asks how it begins or ends, is missing.
        """
        every = range(len(messages))
        spans = self._shown(messages, every, text, tools, where)
        if spans is None:
            alone = (self._shown(messages, [index], text, tools, where) for index in every)
            spans = [span for found in alone for span in found or ()]
        ordered: list[Span] = []
        for start, end in sorted(spans):
            if not ordered or start >= ordered[-1][1]:
                ordered.append((start, end))
        return ordered

    def end_of_turn(self) -> frozenset[str]:
        """The control tokens that may end a turn: what follows a last answer, and the tokenizer's end of text."""
        ends = {self.variables["eos_token"]} if self.variables.get("eos_token") else set()
        question, answer = "What is the colour of the sky?", "It is blue on most days."
        probe = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        try:
            text = self.render(probe, where=f"a probe of {self.name}")
        except BadData:
            # A template may want other conversations than the probe, for one a system turn; the rows will tell.
            return frozenset(ends)
        found = self.control.search(text, text.rfind(answer) + len(answer)) if answer in text else None
        return frozenset(ends | {found.group()} if found else ends)

    def _environment(self) -> jinja2.Environment:
        return LimitedEnvironment()

    def _finder(self, messages: Messages, tools: Tools, text: str, where: str) -> TurnFinder:
        return TurnFinder(self, messages, tools, text, where)

    def _context(self, messages: Messages, tools: Tools, marks: tuple[str, str], prompt: bool) -> dict[str, Any]:
        return {
            **self.variables,
            OPEN: marks[0],
            CLOSE: marks[1],
            LIMITS: Limits(),
            "messages": [dict(message) for message in messages],
            "tools": list(tools) if tools else None,
            "documents": None,
            "add_generation_prompt": prompt,
        }

    def _render(self, messages: Messages, tools: Tools, where: str, marks: tuple[str, str], prompt: bool) -> str:
        try:
            return self._template.render(self._context(messages, tools, marks, prompt))
        except (WithoutEnd, MemoryError) as error:
            raise BadBase(
                f"the chat template makes {error or 'more than there is memory for'} of this conversation",
                where=f"{where}, {self.name}",
                remedy="Name a template that comes to an end in the recipe's chat_template.",
            ) from None
        except Exception as error:
            # A template can fail in any way; its own words are quoted only if they are constants of its source,
            # as a message could carry the row's text.
            words = str(error)
            reason = words if words and words in self.source else type(error).__name__
            raise BadData(
                f"the chat template refuses this conversation ({reason})",
                where=f"{where}, {self.name}",
                remedy="Correct the row (roles and their order), or name another template in the recipe.",
            ) from None

    def _read_marks(
        self, messages: Messages, tools: Tools, text: str, words: str, where: str
    ) -> tuple[list[Span], list[Span]]:
        """Turns and quoted places, from a second rendering with marks around them."""
        free = [mark for mark in MARKS if mark not in words]
        if len(free) < 4:
            raise BadData(
                "the row uses up Unicode's noncharacters", where=where, remedy="Remove U+FDD0 to U+FDEF from it."
            )
        turn_open, turn_close, quote_open, quote_close = free[:4]

        def quote(word: str) -> str:
            return self.control.sub(lambda match: quote_open + match.group() + quote_close, word)

        traced = self._render(
            [mapped(message, quote) for message in messages],
            [mapped(tool, quote) for tool in tools] if tools else None,
            where,
            (turn_open, turn_close),
            False,
        )
        spans: dict[str, list[Span]] = {turn_open: [], quote_open: []}
        opened: dict[str, int] = {}
        opener = {turn_close: turn_open, quote_close: quote_open}
        clean: list[str] = []
        length = 0
        balanced = True
        for piece in re.split(f"([{turn_open}{turn_close}{quote_open}{quote_close}])", traced):
            if piece in spans:
                balanced &= piece not in opened
                opened[piece] = length
            elif piece in opener:
                start = opened.pop(opener[piece], None)
                balanced &= start is not None
                spans[opener[piece]].append((start or 0, length))
            else:
                clean.append(piece)
                length += len(piece)
        if opened or not balanced or "".join(clean) != text:
            raise BadData(
                "the chat template changes the text around its marks or around a control token that a message spells",
                where=f"{where}, {self.name}",
                remedy="Remove the control token's text from the row, or correct the template.",
            )
        return spans[turn_open], spans[quote_open]

    def _shown(
        self, messages: Messages, chosen: Sequence[int], text: str, tools: Tools, where: str
    ) -> list[Span] | None:
        """Where ``text`` shows the contents of the ``chosen`` messages; None if marks around them change it."""
        words = "".join(word for part in messages for word in strings(part))
        free = [mark for mark in MARKS if mark not in words and mark not in text]
        if len(free) < 2:
            return None
        opening, closing = free[:2]
        shown = [dict(message) for message in messages]
        for index in chosen:
            content = shown[index].get("content")
            if isinstance(content, str) and (inner := content.strip()):
                shown[index]["content"] = content.replace(inner, f"{opening}{inner}{closing}", 1)
        try:
            traced = self._render(shown, tools, where, ("", ""), False)
        except (BadData, BadBase):
            return None
        if traced.replace(opening, "").replace(closing, "") != text:
            return None
        spans = []
        for found in re.finditer(f"{opening}[^{opening}{closing}]+{closing}", traced):
            marks = sum(traced.count(mark, 0, found.start()) for mark in (opening, closing))
            spans.append((found.start() - marks, found.end() - marks - 2))
        return spans


def strings(value: Any) -> Iterator[str]:
    """Every string in a message or a tool."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (key, *strings(item))
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """``value`` with ``change`` applied to every string in it."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    return value


def _joined(spans: list[Span]) -> Iterator[Span]:
    """Spans in order, touching ones as one and empty ones left out."""
    current: Span | None = None
    for start, end in sorted(spans):
        if start == end:
            continue
        if current is not None and start <= current[1]:
            current = (current[0], max(current[1], end))
            continue
        if current is not None:
            yield current
        current = (start, end)
    if current is not None:
        yield current
