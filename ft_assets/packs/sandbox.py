"""The sandbox that chat templates run in: untrusted Jinja with what transformers gives it, and nothing more."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

# Templates that print today's date get this one (the Llama templates' own default), or equal inputs would give
# other tokens tomorrow.
DATE = datetime(2024, 7, 26)
OPEN, CLOSE = "ft_generation_open", "ft_generation_close"
"""Names under which a rendering is given the two marks to put around what the assistant wrote."""


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


def template_environment() -> ImmutableSandboxedEnvironment:
    """The environment templates are written for, as transformers sets it up."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationMarks, "jinja2.ext.loopcontrols"]
    )
    furnish(environment)
    return environment


def furnish(environment: jinja2.Environment) -> None:
    """Add the filter and the two functions that templates expect."""
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = DATE.strftime


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)
