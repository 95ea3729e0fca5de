"""The sandbox for chat templates: untrusted Jinja with transformers' extensions, and limits on all its work.

Jinja's own sandbox keeps a template away from Python's internals. It does not limit work: nested loops, macros that
call themselves twice, texts that double. ``Limits`` counts those, so that the same template stops at the same place on
every machine.
"""

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension
from jinja2.filters import do_sort, make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEscapeFormatter, SandboxedFormatter
from markupsafe import Markup

# Templates that print today's date get this one (the Llama templates' own default); otherwise equal inputs would give
# other tokens tomorrow.
DATE = datetime(2024, 7, 26)
OPEN, CLOSE = "ft_generation_open", "ft_generation_close"
"""Names under which a rendering gets the two marks to put around the assistant's text."""
LIMITS = "ft_limits"
"""Name under which it gets its ``Limits``."""

# Python does a million iterations in about a second, and a conversation of 10,000 messages takes a tenth as many.
_STEPS = 1_000_000
_CALL = 10
# Items of a new list that cost a step. Lists that grow by a message at a time may have 10,000; all that a rendering
# makes have at most 64 million, which are 512 MB. New items, of a text that is split, take more: a few hundred MB.
_ITEMS, _NEW_ITEMS = 64, 8
_CHARACTERS = 1 << 28
_NUMBER = 1 << 63
# One field of "%", with its width and precision.
_FIELD = re.compile(r"%(?:\([^)]*\))?[#0\- +]*(\*|\d*)(?:\.(\*|\d*))?")
_DIGITS = 300
_COUNTED = "ft_counted"
# What Jinja adds to the arguments of calls in a loop or block with names of its own, for functions that need a context.
_SCOPE = frozenset({"_loop_vars", "_block_vars"})


class WithoutEnd(Exception):
    """A template has done more work than any conversation requires."""


@dataclass(slots=True)
class Limits:
    """Remaining work of one rendering, in loop iterations; a call counts as ten."""

    steps: int = _STEPS

    def step(self, steps: int = 1) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise WithoutEnd("rounds without end")

    def make(self, items: int, *, per_step: int = _ITEMS) -> None:
        """Count a list of so many items, before it is made."""
        self.step(items // per_step)


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


class _Generator(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        write_concatenation(self, node, frame)


def write_concatenation(generator: CodeGenerator, node: nodes.Concat, frame: Frame) -> None:
    """``a ~ b`` as a call of the environment's method."""
    generator.write("environment.strung((")
    for item in node.nodes:
        generator.visit(item, frame)
        generator.write(", ")
    generator.write("))")


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox that counts loop iterations and calls, and makes no text of more than 2**28 characters."""

    code_generator_class: type[CodeGenerator] = _Generator
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, marks: type[GenerationMarks] = GenerationMarks) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[marks, "jinja2.ext.loopcontrols"])
        self.filters["tojson"] = _tojson
        self.filters[_COUNTED] = _counted
        self.filters["replace"] = _replace
        self.filters["join"] = _join
        self.filters["format"] = _format
        self.filters["list"] = _list
        self.filters["sort"] = _sort
        for name in ("center", "indent", "batch", "slice", "round"):
            self.filters[name] = _within(self.filters[name], _STEPS if name != "round" else _DIGITS)
        del self.globals["lipsum"]
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = DATE.strftime

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, _COUNTED, [], [], None, None).set_lineno(loop.lineno)
        return tree

    @staticmethod
    def concat(values: Iterable[Any]) -> Any:
        """A template's output, as one text."""
        parts, length = [], 0
        for value in values:
            parts.append(value)
            length += len(value)
            if length > _CHARACTERS:
                raise WithoutEnd("a text without end")
        return "".join(parts)

    def strung(self, values: Iterable[Any]) -> Any:
        """The concatenated texts of ``values``."""
        return self.concat(map(str, values))

    def call_binop(self, context: Context, operator_: str, left: Any, right: Any) -> Any:
        lists = [len(each) for each in (left, right) if isinstance(each, list | tuple)]
        if operator_ == "+":
            context[LIMITS].make(sum(lists))
            return _short(operator.add(left, right))
        if operator_ == "%":
            return _formatted(left, right) if isinstance(left, str | bytes) else operator.mod(left, right)
        if isinstance(left, int) and isinstance(right, int):
            return _power(left, right) if operator_ == "**" else _number(operator.mul(*map(_number, (left, right))))
        if operator_ == "**":
            return operator.pow(left, right)
        for many, times in ((left, right), (right, left)):
            if (
                isinstance(many, str | bytes | list | tuple)
                and isinstance(times, int)
                and len(many) * times > _CHARACTERS
            ):
                raise WithoutEnd("a text without end")
        if lists:
            context[LIMITS].make(lists[0] * max(0, right if isinstance(right, int) else left))
        return operator.mul(left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        __context[LIMITS].step(_CALL)
        text, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(text, str | bytes | int):
            if name == "join" and args:
                args = (_joinable(text, args[0]), *args[1:])
            elif name in _SPLITTING:
                __context[LIMITS].make(_pieces(text, *args, *kwargs.values()), per_step=_NEW_ITEMS)
            elif name in _GROWING:
                _GROWING[name](text, *args, **{key: kwargs[key] for key in kwargs if key not in _SCOPE})
        return super().call(__context, __obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        usual = super().wrap_str_format(value)
        if usual is None:
            return None
        text = value.__self__
        is_map = value.__name__ == "format_map"

        def within(*args: Any, **kwargs: Any) -> str:
            formatter = _EscapeFormatter(self, escape=text.escape) if isinstance(text, Markup) else _Formatter(self)
            if is_map:
                (kwargs,), args = args, ()
            return type(text)(formatter.vformat(text, args, kwargs))

        return within


@jinja2.pass_context
def _counted(context: Context, items: Iterable[Any]) -> Iterable[Any]:
    limits = context[LIMITS]
    if not isinstance(items, list | tuple):
        return _rounds(items, limits)
    # Loops over lists keep their type, as a template may ask for their length.
    limits.step(len(items))
    return items


def _rounds(items: Iterable[Any], limits: Limits) -> Iterator[Any]:
    for item in items:
        limits.step()
        yield item


@jinja2.pass_context
def _list(context: Context, value: Iterable[Any]) -> list[Any]:
    return list(_told(value, context[LIMITS]))


@jinja2.pass_context
def _sort(context: Context, value: Iterable[Any], *args: Any, **kwargs: Any) -> list[Any]:
    return do_sort(context.environment, _told(value, context[LIMITS]), *args, **kwargs)


def _told(items: Iterable[Any], limits: Limits) -> Iterator[Any]:
    for number, item in enumerate(items, 1):
        if number % _NEW_ITEMS == 0:
            limits.step()
        yield item


_SPLITTING = ("split", "rsplit", "splitlines")


def _pieces(text: Any, *given: Any) -> int:
    """The most pieces that ``text`` can be split into."""
    separator = next((each for each in given if isinstance(each, str | bytes) and each), None)
    return len(text) // 2 if separator is None else text.count(separator) + 1


class _Fields:
    """Counts the output of the fields of one ``format``."""

    length = 0

    def format_field(self, value: Any, format_spec: str) -> Any:
        _fit(self.length + sum(map(int, re.findall(r"\d+", format_spec))))
        text = super().format_field(value, format_spec)  # type: ignore[misc]
        self.length += len(text)
        _fit(self.length)
        return text


class _Formatter(_Fields, SandboxedFormatter):
    pass


class _EscapeFormatter(_Fields, SandboxedEscapeFormatter):
    pass


def _fit(length: int) -> None:
    if length > _CHARACTERS:
        raise WithoutEnd("a text without end")


def _number(value: int) -> int:
    if abs(value) > _NUMBER:
        raise WithoutEnd("a number without end")
    return value


def _power(left: int, right: int) -> Any:
    if abs(left) > 1 and abs(right) > _NUMBER.bit_length():
        raise WithoutEnd("a number without end")
    result = operator.pow(_number(left), right)
    return _number(result) if isinstance(result, int) else result


def _formatted(text: Any, values: Any) -> Any:
    """``text % values``."""
    fields = _FIELD.findall(text if isinstance(text, str) else text.decode("latin-1"))
    given = list(values.values() if isinstance(values, Mapping) else values if isinstance(values, tuple) else [values])
    widest = max((abs(each) for each in given if isinstance(each, int)), default=0)
    longest = max((len(each) for each in given if isinstance(each, str | bytes)), default=0)
    repeats = len(fields) if isinstance(values, Mapping) else 1
    widths = [widest if width == "*" else int(width or 0) for field in fields for width in field]
    _fit(len(text) + sum(widths) + repeats * longest)
    return _short(operator.mod(text, values))


def _format(value: Any, *args: Any, **kwargs: Any) -> Any:
    return _formatted(value if isinstance(value, str) else str(value), kwargs or args)


def _within(usual: Callable[..., Any], most: int) -> Callable[..., Any]:
    """A filter that refuses numbers beyond ``most`` among its options."""

    def limited(value: Any, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(each, int) and abs(each) > most for each in (*args, *kwargs.values())):
            raise WithoutEnd("a text without end")
        return usual(value, *args, **kwargs)

    return limited


def _joinable(separator: Any, values: Iterable[Any]) -> list[Any]:
    parts, length = [], 0
    for value in values:
        parts.append(value)
        length += (len(value) if isinstance(value, str | bytes) else 0) + len(separator)
        _fit(length)
    return parts


@jinja2.pass_environment
def _join(environment: jinja2.Environment, value: Iterable[Any], d: Any = "", attribute: Any = None) -> str:
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return str(d).join(_joinable(str(d), map(str, value)))


def _replace(s: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = str(s), str(old), str(new)
    count = -1 if count is None else count
    _fit_replaced(text, old, new, count)
    return text.replace(old, new, count)


def _fit_replaced(text: Any, old: Any, new: Any, count: int = -1) -> None:
    if isinstance(old, str | bytes) and isinstance(new, str | bytes) and len(new) > len(old):
        found = text.count(old)
        _fit(len(text) + (min(found, count) if count >= 0 else found) * (len(new) - len(old)))


def _fit_width(_: Any, width: Any = 0, *__: Any, length: Any = 0, **___: Any) -> None:
    if any(isinstance(each, int) and each > _CHARACTERS for each in (width, length)):
        raise WithoutEnd("a text without end")


def _fit_tabs(text: Any, tabsize: Any = 8) -> None:
    if isinstance(tabsize, int):
        _fit(len(text) + len(text) * tabsize)


# Methods of texts and numbers whose result may be larger than their input.
_GROWING: dict[str, Callable[..., None]] = {
    "replace": _fit_replaced,
    "expandtabs": _fit_tabs,
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "to_bytes"), _fit_width),
}


def _short(value: Any) -> Any:
    if isinstance(value, str | list | tuple) and len(value) > _CHARACTERS:
        raise WithoutEnd("a text without end")
    return value


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    if isinstance(indent, int) and indent > _DIGITS:
        raise WithoutEnd("a text without end")
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)
