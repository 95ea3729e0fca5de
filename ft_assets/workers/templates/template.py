"""Chat templates: render a conversation as text, and track which characters the assistant wrote.

Templates are untrusted Jinja and run in a sandbox. ``{% generation %}`` marks, as in transformers and TRL, enclose the
assistant's text; without them it is what follows the generation prompt (``turns.py``).
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import jinja2
from jinja2 import nodes

from ft_assets.workers.templates.chat_environment import CLOSE, OPEN, ChatEnvironment
from ft_assets.workers.templates.limits import WithoutEnd
from ft_assets.workers.templates.marks import free_marks, located, without_marks
from ft_assets.workers.templates.probes import ASKS, SAYS, Probes, with_ids, with_text_arguments
from ft_assets.workers.templates.rendering import Messages, Rendering, Span, TemplateFailed, Tools
from ft_assets.workers.templates.thoughts import with_thoughts_apart
from ft_assets.workers.templates.turns import TurnFinder
from ft_resources.errors import BadBase, BadData, UserError


class ChatTemplate:
    """One compiled template.

    Args:
        source: the Jinja text.
        name: for errors, such as ``chat_template of the recipe``.
        variables: the special tokens that templates use (``bos_token`` …).
        control: matches every string that the tokenizer reads as a control token.
        ends: control tokens that the recipe says end a turn.
    """

    def __init__(
        self,
        source: str,
        *,
        name: str,
        variables: Mapping[str, str],
        control: re.Pattern[str],
        ends: Sequence[str] = (),
    ) -> None:
        self.source, self.name, self.control, self._ends = source, name, control, tuple(ends)
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
        """The template's text for ``messages``. Raises BadData, naming ``where``, if the template refuses them, and
        TemplateFailed if it fails."""
        return self._render(self._spelled(messages), tools, where, ("", ""), add_generation_prompt)

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
        """``render`` with the quoted spans and, unless ``with_turns`` is off, the assistant's turns.

        Without marks, only turns of messages from the ``first`` on are searched for, or only the last of them. Raises
        BadData, naming ``where``, for a conversation that the template refuses, and BadBase for a template in which the
        assistant's turns cannot be located.
        """
        text = self.render(messages, where=where, tools=tools)
        words = [word for part in (*messages, *(tools or ())) for word in strings(part)]
        turns: list[Span] = []
        quoted: list[Span] = []
        if (self.marked and with_turns) or any(self.control.search(word) for word in words):
            turns, quoted = self._read_marks(messages, tools, text, "".join(words), where)
        if with_turns and not self.marked:
            turns = self._finder(messages, tools, text, where).turns(first=first, last_only=last_only)
        lead = self._lead if self.marked and turns else ""
        turns = [(start + len(lead) * text.startswith(lead, start), end) for start, end in _joined(turns)]
        return Rendering(text=text, turns=turns, quoted=quoted)

    def contents(self, messages: Messages, text: str, *, where: str, tools: Tools = None) -> list[Span]:
        """Spans of the contents of ``messages`` in their rendering ``text``, without white space around them.

        In order, found by a second rendering with marks around them. Contents that the template changes, or whose
        beginning or end it checks, are missing.
        """
        shown = {index: each["content"] for index, each in enumerate(messages) if isinstance(each.get("content"), str)}
        found = located(lambda marked: self.render(marked, where=where, tools=tools), messages, shown, text)
        ordered: list[Span] = []
        for start, end in sorted(itertools.chain.from_iterable(found.values())):
            if not ordered or start >= ordered[-1][1]:
                ordered.append((start, end))
        return ordered

    @cached_property
    def probes(self) -> Probes:
        """What this template does with any conversation."""

        def render(messages: Messages, *, prompt: bool = False) -> str:
            return self._render(messages, None, f"a probe of {self.name}", ("", ""), prompt)

        return Probes(render, self.control, self.variables.get("eos_token") or "", self._ends)

    @cached_property
    def _lead(self) -> str:
        """The end of a generation prompt that the marks take in: a model is given it, and need not learn it."""
        where, conversation = f"a probe of {self.name}", [ASKS, SAYS]
        try:
            asked = self.probes.asked
            answered = self._render(conversation, None, where, ("", ""), False)
            turns, _ = self._read_marks(conversation, None, answered, "", where)
        except UserError:
            # The rows will show what is wrong.
            return ""
        asked = asked.removesuffix(self.probes.missing_thought.end if self.probes.missing_thought else "")
        return answered[turns[-1][0] : len(asked)] if turns and answered.startswith(asked) else ""

    def _environment(self) -> jinja2.Environment:
        return ChatEnvironment()

    def _finder(self, messages: Messages, tools: Tools, text: str, where: str) -> TurnFinder:
        return TurnFinder(self, messages, tools, text, where)

    def _context(self, messages: Messages, tools: Tools, marks: tuple[str, str], prompt: bool) -> dict[str, Any]:
        return {
            **self.variables,
            OPEN: marks[0],
            CLOSE: marks[1],
            "messages": [dict(message) for message in messages],
            "tools": list(tools) if tools else None,
            "documents": None,
            "add_generation_prompt": prompt,
        }

    def _spelled(self, messages: Messages) -> Messages:
        """``messages`` with thoughts, and the arguments and ids of tool calls, as the template needs them."""
        if self.probes.thoughts_field:
            messages = [with_thoughts_apart(message, self.probes.thoughts_field) for message in messages]
        if any(message.get("tool_calls") for message in messages):
            if self.probes.id_form:
                messages = with_ids(messages, self.probes.id_form)
            if self.probes.arguments_are_text:
                messages = [with_text_arguments(message) for message in messages]
        return messages

    def _render(self, messages: Messages, tools: Tools, where: str, marks: tuple[str, str], prompt: bool) -> str:
        try:
            return self._template.render(self._context(messages, tools, marks, prompt))
        except (WithoutEnd, MemoryError) as error:
            raise BadBase(
                f"the chat template does not finish on this conversation ({error or 'out of memory'})",
                where=f"{where}, {self.name}",
                remedy="Name a template that terminates in the recipe's chat_template.",
            ) from None
        except Exception as error:
            # ``raise_exception``; its message is quoted only if it is a constant of the source, as it could contain the
            # row's text.
            if type(error) is jinja2.TemplateError:
                words = str(error) if str(error) in self.source else ""
                raise BadData(
                    f"the chat template refuses this conversation{f' ({words})' if words else ''}",
                    where=f"{where}, {self.name}",
                    remedy="Name a template in the recipe's chat_template that takes such conversations, or leave them "
                    "out of the dataset.",
                ) from None
            raise TemplateFailed(
                f"the chat template itself fails on this conversation ({type(error).__name__})",
                where=f"{self.name}, {where}",
                remedy="Correct the template, or name another one in the recipe's chat_template; if only some rows are "
                "concerned, see whether they lack what the template reads.",
            ) from None

    def _read_marks(
        self, messages: Messages, tools: Tools, text: str, words: str, where: str
    ) -> tuple[list[Span], list[Span]]:
        """Turns and quoted spans, from a second rendering with marks around them."""
        free = free_marks(words, 4)
        if not free:
            raise BadData(
                "the row contains nearly all of Unicode's noncharacters",
                where=where,
                remedy="Remove U+FDD0 to U+FDEF from it.",
            )
        turn_open, turn_close, quote_open, quote_close = free

        def quote(word: str) -> str:
            return self.control.sub(lambda match: quote_open + match.group() + quote_close, word)

        traced = self._render(
            self._spelled([mapped(message, quote) for message in messages]),
            [mapped(tool, quote) for tool in tools] if tools else None,
            where,
            (turn_open, turn_close),
            False,
        )
        spans: dict[str, list[Span]] = {turn_open: [], quote_open: []}
        opened: dict[str, int] = {}
        opener = {turn_close: turn_open, quote_close: quote_open}
        plain, marks = without_marks(traced, f"[{''.join(free)}]")
        balanced = plain == text
        for mark, place in marks:
            if mark in spans:
                balanced &= mark not in opened
                opened[mark] = place
            else:
                start = opened.pop(opener[mark], None)
                balanced &= start is not None
                spans[opener[mark]].append((start or 0, place))
        if opened or not balanced:
            if not self.control.search(words):
                raise BadBase(
                    "the chat template changes the text between its {% generation %} marks",
                    where=f"{self.name}, {where}",
                    remedy="Correct the template: filters and conditions belong inside the marks.",
                )
            raise BadData(
                "the chat template changes the text around a control token in a message",
                where=f"{where}, {self.name}",
                remedy="Correct the template, or remove the control token's text from the row.",
            )
        return spans[turn_open], spans[quote_open]


def check_template(source: str, where: str) -> None:
    """Raise BadBase, naming the line, unless ``source`` is valid Jinja; renders nothing."""
    ChatTemplate(source, name=where, variables={}, control=re.compile(r"(?!)"))


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
    """Spans in order, adjacent ones merged and empty ones left out."""
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
