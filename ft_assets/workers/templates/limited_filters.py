"""Jinja's filters and tests, and methods of texts, with all that they read and make counted before they begin."""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jinja2
from jinja2.filters import make_attrgetter
from jinja2.runtime import Context
from jinja2.utils import _PassArg

from ft_assets.workers.templates.limits import (
    MOST_CHARACTERS,
    MOST_DIGITS,
    STEPS,
    Limits,
    WithoutEnd,
    fit,
    is_short,
    limits_of,
)

Function = Callable[..., Any]
# Filters that read only the ends of a list, or only its items; all others also read what the items contain.
_OF_ENDS = frozenset({"default", "d", "length", "count", "first", "last", "random", "attr"})
_OF_ITEMS = frozenset(
    {"map", "select", "reject", "selectattr", "rejectattr", "batch", "slice", "list", "reverse", "items", "sum"}
)
# Filters that split a text in Python code.
_SLOW = frozenset({"title", "wordcount", "striptags", "urlize", "urlencode", "pprint"})
_COMPARING = (
    *("eq", "==", "equalto", "ne", "!=", "lt", "<", "lessthan", "le", "<=", "gt", ">", "greaterthan", "ge", ">="),
    *("in", "lower", "upper"),
)
# Characters that ``urlize`` writes around a word besides its arguments.
_LINK = 64
# One field of "%", with its width and precision.
_FIELD = re.compile(r"%(?:\([^)]*\))?[#0\- +]*(\*|\d*)(?:\.(\*|\d*))?")


def limited_filters(usual: Mapping[str, Function]) -> dict[str, Function]:
    """``usual`` filters of an environment by name, limited, but for ``wordwrap``, which is left out."""
    bounded = {name: _within(usual[name], STEPS) for name in ("center", "batch", "slice")}
    own: dict[str, Function] = {
        **bounded,
        "round": _within(usual["round"], MOST_DIGITS),
        "tojson": _within(usual["tojson"], MOST_DIGITS),
        "indent": _indent(usual["indent"]),
        "urlize": _urlize(usual["urlize"]),
        "replace": _replace,
        "join": _join,
        "format": _format,
        "list": _list,
        "sum": _sum,
    }
    limited = {name: _counted(name, function) for name, function in {**usual, **own}.items()}
    # Its time is quadratic in a word's length, hours for a word of a few megabytes, and no prompt needs it.
    del limited["wordwrap"]
    return limited


def limited_tests(usual: Mapping[str, Any]) -> dict[str, Any]:
    """The tests that compare, of an environment's ``usual`` ones by name, limited."""
    return {name: _counted(name, usual[name]) for name in _COMPARING}


def _counted(name: str, usual: Function) -> Function:
    """``usual``, called after all that it reads is counted."""
    needs = _PassArg.from_obj(usual)

    @jinja2.pass_context
    def counted(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        limits = limits_of(context)
        for each in (*args, *kwargs.values()):
            if not is_short(each):
                limits.read(each)
        if isinstance(value, Iterator):
            value = limits.counted(value, whole=name not in _OF_ITEMS)
        elif name in _OF_ITEMS and isinstance(value, list | tuple | Mapping | range):
            limits.make_new(len(value))
        elif name not in _OF_ENDS and (name in _SLOW or not is_short(value)):
            limits.use(value, slow=name in _SLOW)
            limits.read(value)
        if needs is None:
            return usual(value, *args, **kwargs)
        given: dict[_PassArg, Any] = {
            _PassArg.context: context,
            _PassArg.eval_context: context.eval_ctx,
            _PassArg.environment: context.environment,
        }
        return usual(given[needs], value, *args, **kwargs)

    return counted


def _within(usual: Function, most: int) -> Function:
    """A filter that refuses numbers beyond ``most`` among its options."""
    needs = _PassArg.from_obj(usual)

    def limited(*given: Any, **kwargs: Any) -> Any:
        options = given[1 if needs is None else 2 :]
        if any(isinstance(each, int) and abs(each) > most for each in (*options, *kwargs.values())):
            raise WithoutEnd("a text without end")
        return usual(*given, **kwargs)

    if needs is not None:
        limited.jinja_pass_arg = needs  # type: ignore[attr-defined]
    return limited


def _indent(usual: Function) -> Function:
    def limited(s: Any, width: Any = 4, *args: Any, **kwargs: Any) -> Any:
        text = str(s)
        each = width if isinstance(width, int) else len(str(width))
        fit(len(text) + (text.count("\n") + 1) * each)
        return usual(s, width, *args, **kwargs)

    return limited


def _urlize(usual: Function) -> Function:
    """The filter that writes its arguments, and ``_LINK`` characters, at each word."""
    needs = _PassArg.from_obj(usual)

    def limited(first: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        around = sum(len(str(each)) for each in (*args, *kwargs.values()))
        fit(len(str(value)) * (_LINK + around))
        return usual(first, value, *args, **kwargs)

    limited.jinja_pass_arg = needs  # type: ignore[attr-defined]
    return limited


@jinja2.pass_context
def _list(context: Context, value: Iterable[Any]) -> list[Any]:
    limits = limits_of(context)
    return list(value if isinstance(value, Iterator) else limits.counted(value))


@jinja2.pass_context
def _sum(context: Context, iterable: Iterable[Any], attribute: Any = None, start: Any = 0) -> Any:
    if attribute is not None:
        iterable = map(make_attrgetter(context.environment, attribute), iterable)
    total = start
    for item in limits_of(context).counted(iterable):
        # A sum of lists copies all earlier ones each time.
        total = context.environment.call_binop(context, "+", total, item)  # type: ignore[attr-defined]
    return total


@jinja2.pass_environment
def _join(environment: jinja2.Environment, value: Iterable[Any], d: Any = "", attribute: Any = None) -> str:
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return str(d).join(joinable(str(d), map(str, value)))


def _format(value: Any, *args: Any, **kwargs: Any) -> Any:
    return formatted(value if isinstance(value, str) else str(value), kwargs or args)


def _replace(s: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = str(s), str(old), str(new)
    count = -1 if count is None else count
    _fit_replaced(text, old, new, count)
    return text.replace(old, new, count)


def joinable(separator: Any, values: Iterable[Any]) -> list[Any]:
    """``values``. Raises WithoutEnd if they are too long with ``separator`` between them."""
    parts, length = [], 0
    for value in values:
        parts.append(value)
        length += (len(value) if isinstance(value, str | bytes) else 0) + len(separator)
        fit(length)
    return parts


def formatted(text: Any, values: Any) -> Any:
    """``text % values``."""
    fields = _FIELD.findall(text if isinstance(text, str) else text.decode("latin-1"))
    given = list(values.values() if isinstance(values, Mapping) else values if isinstance(values, tuple) else [values])
    widest = max((abs(each) for each in given if isinstance(each, int)), default=0)
    longest = max((len(each) for each in given if isinstance(each, str | bytes)), default=0)
    repeats = len(fields) if isinstance(values, Mapping) else 1
    widths = [widest if width == "*" else int(width or 0) for field in fields for width in field]
    fit(len(text) + sum(widths) + repeats * longest)
    result = operator.mod(text, values)
    fit(len(result))
    return result


def count_method(limits: Limits, name: str, text: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Count what the method ``name`` of a text or number makes."""
    if name in _SPLITTING:
        limits.make_new(_pieces(text, *args, *kwargs.values()))
    elif name in _GROWING:
        _GROWING[name](text, *args, **kwargs)


_SPLITTING = ("split", "rsplit", "splitlines")


def _pieces(text: Any, *given: Any) -> int:
    """The most pieces that ``text`` can be split into."""
    separator = next((each for each in given if isinstance(each, str | bytes) and each), None)
    return len(text) // 2 if separator is None else text.count(separator) + 1


def _fit_replaced(text: Any, old: Any, new: Any, count: int = -1) -> None:
    if isinstance(old, str | bytes) and isinstance(new, str | bytes) and len(new) > len(old):
        found = text.count(old)
        fit(len(text) + (min(found, count) if count >= 0 else found) * (len(new) - len(old)))


def _fit_width(_: Any, width: Any = 0, *__: Any, length: Any = 0, **___: Any) -> None:
    if any(isinstance(each, int) and each > MOST_CHARACTERS for each in (width, length)):
        raise WithoutEnd("a text without end")


def _fit_tabs(text: Any, tabsize: Any = 8) -> None:
    if isinstance(tabsize, int):
        fit(len(text) + len(text) * tabsize)


# Methods of texts and numbers whose result may be larger than their input.
_GROWING: dict[str, Callable[..., None]] = {
    "replace": _fit_replaced,
    "expandtabs": _fit_tabs,
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "to_bytes"), _fit_width),
}
