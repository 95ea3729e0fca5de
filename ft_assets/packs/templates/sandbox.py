"""The sandbox that chat templates run in: untrusted Jinja with what transformers gives it, and an end to everything.

Jinja's own sandbox keeps a template away from Python's insides. What it lets through is work without end: nested
loops, macros that call themselves twice, texts that double. ``Limits`` counts those, so that the same template ends
at the same place on every machine.
"""

import json
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

# Templates that print today's date get this one (the Llama templates' own default), or equal inputs would give
# other tokens tomorrow.
DATE = datetime(2024, 7, 26)
OPEN, CLOSE = "ft_generation_open", "ft_generation_close"
"""Names under which a rendering is given the two marks to put around what the assistant wrote."""
LIMITS = "ft_limits"
"""Name under which it is given its ``Limits``."""

# Python makes a million rounds in about a second, and a conversation of 10,000 messages takes a tenth of them.
_STEPS = 1_000_000
_CALL = 10
_CHARACTERS = 1 << 28
_BITS = 1 << 16
_COUNTED = "ft_counted"


class WithoutEnd(Exception):
    """A template has done more work than any conversation asks for."""


@dataclass(slots=True)
class Limits:
    """What one rendering may still do, in rounds of loops; a call counts as ten."""

    steps: int = _STEPS

    def step(self, steps: int = 1) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise WithoutEnd("rounds without end")


class GenerationMarks(Extension):
    """``{% generation %} … {% endgeneration %}``: puts the two marks of the rendering around its body.

    The body is a call block, as in transformers, so that names set inside stay inside.
    """

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        marks: list[nodes.Expr] = [nodes.Name(OPEN, "load"), nodes.Name(CLOSE, "load")]
        return nodes.CallBlock(self.call_method("_mark", marks), [], [], body).set_lineno(line)

    def _mark(self, opening: str, closing: str, caller: Callable[[], str]) -> str:
        return f"{opening}{caller()}{closing}"


class _Generator(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        write_concatenation(self, node, frame)


def write_concatenation(generator: CodeGenerator, node: nodes.Concat, frame: Frame) -> None:
    """``a ~ b`` as a call of the environment's."""
    generator.write("environment.strung((")
    for item in node.nodes:
        generator.visit(item, frame)
        generator.write(", ")
    generator.write("))")


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox that counts the rounds of loops and the calls, and makes no text of more than 2**28 characters."""

    code_generator_class: type[CodeGenerator] = _Generator
    intercepted_binops = frozenset({"+", "*", "**"})

    def __init__(self, marks: type[GenerationMarks] = GenerationMarks) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[marks, "jinja2.ext.loopcontrols"])
        self.filters["tojson"] = _tojson
        self.filters[_COUNTED] = _counted
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = DATE.strftime

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, _COUNTED, [], [], None, None).set_lineno(loop.lineno)
        return tree

    @staticmethod
    def concat(values: Iterable[Any]) -> Any:
        """What a template prints, as one text."""
        parts, length = [], 0
        for value in values:
            parts.append(value)
            length += len(value)
            if length > _CHARACTERS:
                raise WithoutEnd("a text without end")
        return "".join(parts)

    def strung(self, values: Iterable[Any]) -> Any:
        """The texts of ``values`` in a row."""
        return self.concat(map(str, values))

    def call_binop(self, context: Context, operator_: str, left: Any, right: Any) -> Any:
        if operator_ == "+":
            return _short(operator.add(left, right))
        if operator_ == "**":
            if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > _BITS:
                raise WithoutEnd("a number without end")
            return operator.pow(left, right)
        for many, times in ((left, right), (right, left)):
            if isinstance(many, str | list | tuple) and isinstance(times, int) and len(many) * times > _CHARACTERS:
                raise WithoutEnd("a text without end")
        return operator.mul(left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        __context[LIMITS].step(_CALL)
        return super().call(__context, __obj, *args, **kwargs)


@jinja2.pass_context
def _counted(context: Context, items: Iterable[Any]) -> Iterable[Any]:
    limits = context[LIMITS]
    if not isinstance(items, list | tuple):
        return _rounds(items, limits)
    # Loops over lists stay what they are, as a template may ask for their length.
    limits.step(len(items))
    return items


def _rounds(items: Iterable[Any], limits: Limits) -> Iterator[Any]:
    for item in items:
        limits.step()
        yield item


def _short(value: Any) -> Any:
    if isinstance(value, str | list | tuple) and len(value) > _CHARACTERS:
        raise WithoutEnd("a text without end")
    return value


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)
