"""Chat templates: a conversation becomes text, and we know which characters the assistant wrote.

Templates are untrusted Jinja and run in a sandbox. ``{% generation %}`` marks, as in transformers and TRL, say what
the assistant wrote; without them it is what follows the generation prompt, found by rendering prefixes.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ft_resources.errors import BadBase, BadData

Span = tuple[int, int]
"""Characters ``start .. end`` of a rendering."""
Messages = Sequence[Mapping[str, Any]]

# Templates that print today's date get this one (the Llama templates' own default), or equal inputs would give
# other tokens tomorrow.
_DATE = datetime(2024, 7, 26)
# Unicode's noncharacters: never text, so they can mark places in a rendering.
_MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
_OPEN, _CLOSE = "ft_generation_open", "ft_generation_close"


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
        self._variables = dict(variables)
        environment = _environment()
        try:
            self._template = environment.from_string(source)
            tree = environment.parse(source)
        except jinja2.TemplateSyntaxError as error:
            raise BadBase(
                f"the chat template is not valid Jinja ({error.message})",
                where=f"{name}, line {error.lineno}",
                remedy="Correct the template, or name a working one in the recipe's chat_template.",
            ) from error
        self.marked = any(name.name == _OPEN for name in tree.find_all(nodes.Name))

    def render(self, messages: Messages, *, where: str, add_generation_prompt: bool = False) -> str:
        """The template's text for ``messages``. Raises BadData, naming ``where``, if the template refuses them."""
        return self._render(messages, where, ("", ""), add_generation_prompt)

    def trace(self, messages: Messages, *, where: str, with_turns: bool = True) -> Rendering:
        """``render`` with the quoted places and, unless ``with_turns`` is off, the assistant's turns.

        Raises BadData, naming ``where``, for a conversation the template refuses, and BadBase for a template from
        which the assistant's turns cannot be told.
        """
        text = self.render(messages, where=where)
        contents = "".join(str(message.get("content") or "") for message in messages)
        turns: list[Span] = []
        quoted: list[Span] = []
        if (self.marked and with_turns) or self.control.search(contents) is not None:
            turns, quoted = self._read_marks(messages, text, contents, where)
        if with_turns and not self.marked:
            turns = self._derive_turns(messages, text, where)
        return Rendering(text=text, turns=list(_joined(turns)), quoted=quoted)

    def end_of_turn(self) -> frozenset[str]:
        """The control tokens that may end a turn: what follows a last answer, and the tokenizer's end of text."""
        ends = {self._variables["eos_token"]} if self._variables.get("eos_token") else set()
        question, answer = "What is the colour of the sky?", "It is blue on most days."
        probe = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        try:
            text = self.render(probe, where=f"a probe of {self.name}")
        except BadData:
            # A template may want other conversations than the probe, for one a system turn; the rows will tell.
            return frozenset(ends)
        found = self.control.search(text, text.rfind(answer) + len(answer)) if answer in text else None
        return frozenset(ends | {found.group()} if found else ends)

    def _render(self, messages: Messages, where: str, marks: tuple[str, str], prompt: bool) -> str:
        try:
            return self._template.render(
                {
                    **self._variables,
                    _OPEN: marks[0],
                    _CLOSE: marks[1],
                    "messages": [dict(message) for message in messages],
                    "tools": None,
                    "documents": None,
                    "add_generation_prompt": prompt,
                }
            )
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

    def _read_marks(self, messages: Messages, text: str, contents: str, where: str) -> tuple[list[Span], list[Span]]:
        """Turns and quoted places, from a second rendering with marks around them."""
        free = [mark for mark in _MARKS if mark not in contents]
        if len(free) < 4:
            raise BadData(
                "the row uses up Unicode's noncharacters", where=where, remedy="Remove U+FDD0 to U+FDEF from it."
            )
        turn_open, turn_close, quote_open, quote_close = free[:4]
        quoting = [
            {
                **message,
                "content": self.control.sub(
                    lambda match: quote_open + match.group() + quote_close, str(message.get("content") or "")
                ),
            }
            for message in messages
        ]
        traced = self._render(quoting, where, (turn_open, turn_close), False)
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

    def _derive_turns(self, messages: Messages, text: str, where: str) -> list[Span]:
        """Each assistant turn is what follows the generation prompt after the messages before it."""
        turns = []
        for index, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = self.render(messages[:index], where=where, add_generation_prompt=True)
            if not text.startswith(before):
                raise self._no_turns(index, "without its own generation prompt", where)
            through = self.render(messages[: index + 1], where=where)
            end = self._common_length(through, text)
            content = str(message.get("content") or "").strip()
            if content not in text[len(before) : end]:
                # Some templates write a turn otherwise when it is the last; then its text follows the prompt at once.
                place = text.find(content, len(before))
                if place < 0 or text[len(before) : place].strip():
                    raise self._no_turns(index, "differently depending on what follows", where)
                end = place + len(content)
            turns.append((len(before), end))
        return turns

    def _no_turns(self, index: int, how: str, where: str) -> BadBase:
        return BadBase(
            f"the chat template renders message {index + 1} {how}, so the assistant's tokens cannot be told",
            where=f"{self.name}, {where}",
            remedy="Name a template with {% generation %} marks around the assistant's text in the recipe.",
        )

    def _common_length(self, through: str, text: str) -> int:
        """How far ``through`` and ``text`` agree, not counting a control token that only begins alike.

        Some templates close a whole conversation specially, so the rendering of a part is not quite a prefix.
        """
        if text.startswith(through):
            return len(through)
        length = next((i for i, (a, b) in enumerate(zip(through, text, strict=False)) if a != b), len(text))
        return next((m.start() for m in self.control.finditer(text) if m.start() < length < m.end()), length)


class _GenerationMarks(Extension):
    """``{% generation %} … {% endgeneration %}``: puts the two marks of the rendering around its body.

    The body is a call block, as in transformers, so that names set inside stay inside.
    """

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        marks: list[nodes.Expr] = [nodes.Name(_OPEN, "load"), nodes.Name(_CLOSE, "load")]
        return nodes.CallBlock(self.call_method("_mark", marks), [], [], body).set_lineno(line)

    def _mark(self, opening: str, closing: str, caller: Any) -> str:
        return f"{opening}{caller()}{closing}"


def _environment() -> ImmutableSandboxedEnvironment:
    """The environment templates are written for, as transformers sets it up."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationMarks, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _DATE.strftime
    return environment


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


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
