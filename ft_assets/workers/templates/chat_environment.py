"""Jinja as chat templates are written for it: transformers' extensions in a sandbox with limits."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

from ft_assets.workers.templates.sandbox import LimitedEnvironment

# Templates that print today's date get this one (the Llama templates' own default); otherwise equal inputs would give
# other tokens tomorrow.
DATE = datetime(2024, 7, 26)
OPEN, CLOSE = "ft_generation_open", "ft_generation_close"
"""Names under which a rendering gets the two marks to put around the assistant's text."""


class GenerationMarks(Extension):
    """``{% generation %} … {% endgeneration %}``: puts the rendering's two marks around its body.

    The body is a call block, as in transformers, so that names set inside stay local.
    """

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        marks: list[nodes.Expr] = [nodes.Name(OPEN, "load"), nodes.Name(CLOSE, "load")]
        return nodes.CallBlock(self.call_method("_mark", marks), [], [], body).set_lineno(line)

    def _mark(self, opening: str, closing: str, caller: Callable[[], str]) -> str:
        return f"{opening}{caller()}{closing}"


class ChatEnvironment(LimitedEnvironment):
    """Compiles chat templates."""

    def __init__(self, marks: type[GenerationMarks] = GenerationMarks) -> None:
        super().__init__(
            own={"tojson": _tojson},
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[marks, "jinja2.ext.loopcontrols"],
        )
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = DATE.strftime


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)
