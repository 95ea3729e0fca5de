"""The sandbox for untrusted Jinja, with limits on all its work.

Jinja's own sandbox keeps a template away from Python's internals. It does not limit work: nested loops, macros that
call themselves twice, texts that double. ``Limits`` counts those, so that the same template stops at the same place on
every machine.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, operators, optimizeconst
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEscapeFormatter, SandboxedFormatter
from markupsafe import Markup

from ft_assets.workers.templates.limited_filters import (
    count_method,
    formatted,
    joinable,
    limited_filters,
    limited_tests,
)
from ft_assets.workers.templates.limits import (
    LIMITS,
    MOST_NUMBER,
    STEPS,
    Limits,
    WithoutEnd,
    fit,
    is_short,
    limits_of,
    number,
)

_CALL = 10
_COUNTED = "ft_counted"
_SEARCHES = ("in", "notin")
# What Jinja adds to the arguments of calls in a loop or block with names of its own, for functions that need a context.
_SCOPE = frozenset({"_loop_vars", "_block_vars"})


class CountedCode(CodeGenerator):
    """Compiles operations that are neither filters nor calls, such as comparisons, to code that counts what it
    reads."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.strung(context, (")
        for item in node.nodes:
            self.visit(item, frame)
            self.write(", ")
        self.write("))")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self._wrapped("used", node.node, frame)
        self.write("[")
        self.visit(node.arg, frame)
        self.write("]")

    @optimizeconst
    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        last = node.ops[-1]
        # The usual ``message.role == "user"`` and ``role in ["user", "tool"]`` read little, and need no counting.
        if len(node.ops) == 1 and (_is_plain(last.expr) or (_is_plain(node.expr) and last.op not in _SEARCHES)):
            super().visit_Compare(node, frame)
            return
        self.write("(")
        self._wrapped("read", node.expr, frame)
        for each in node.ops:
            self.write(f" {operators[each.op]} ")
            self._wrapped("searched" if each.op in _SEARCHES else "read", each.expr, frame)
        self.write(")")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self.write("{")
        for item in node.items:
            self._wrapped("read", item.key, frame)
            self.write(": ")
            self.visit(item.value, frame)
            self.write(", ")
        self.write("}")

    def _wrapped(self, method: str, node: nodes.Expr, frame: Frame) -> None:
        self.write(f"environment.{method}(context, ")
        self.visit(node, frame)
        self.write(")")


class LimitedTemplate(jinja2.Template):
    """A template with new limits for each rendering."""

    def render(self, *args: Any, **kwargs: Any) -> str:
        """The text. Raises WithoutEnd for more work than the environment allows."""
        environment: LimitedEnvironment = self.environment  # type: ignore[assignment]
        return super().render(*args, **kwargs, **{LIMITS: Limits(environment.steps)})


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox that counts loop iterations, calls and what is read, and makes no text of more than 2**28 characters.

    Args:
        steps: loop iterations of one rendering.
        own: filters besides Jinja's, or in their place.
        options: of Jinja's environment.
    """

    code_generator_class: type[CodeGenerator] = CountedCode
    template_class = LimitedTemplate
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(
        self, *, steps: int = STEPS, own: Mapping[str, Callable[..., Any]] | None = None, **options: Any
    ) -> None:
        super().__init__(finalize=_output, **options)
        self.steps = steps
        self.filters = {**limited_filters({**self.filters, **(own or {})}), _COUNTED: _counted}
        self.tests.update(limited_tests(self.tests))
        del self.globals["lipsum"]

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
            fit(length)
        return "".join(parts)

    # What compiled templates call (``CountedCode``).

    def strung(self, context: Context, values: Iterable[Any]) -> Any:
        """The concatenated texts of ``values``."""
        limits = limits_of(context)
        for value in values:
            if not is_short(value):
                limits.read(value)
        return self.concat(map(str, values))

    def read(self, context: Context, value: Any) -> Any:
        """``value``, counted as read with all that it contains."""
        if not is_short(value):
            limits_of(context).read(value)
        return value

    def used(self, context: Context, value: Any) -> Any:
        """``value``, counted as read without what its items contain."""
        limits_of(context).use(value)
        return value

    def searched(self, context: Context, value: Any) -> Any:
        """``value``, the container of an ``in``; a lookup in a mapping reads nothing else."""
        return value if isinstance(value, Mapping) else self.read(context, value)

    def call_binop(self, context: Context, operator_: str, left: Any, right: Any) -> Any:
        limits = limits_of(context)
        lists = [len(each) for each in (left, right) if isinstance(each, list | tuple)]
        if operator_ == "+":
            limits.make(sum(lists))
            result = operator.add(left, right)
            if isinstance(result, str | list | tuple):
                limits.use(result)
                fit(len(result))
            return result
        if operator_ == "%":
            if not isinstance(left, str | bytes):
                return operator.mod(left, right)
            limits.read(right)
            return formatted(left, right)
        if isinstance(left, int) and isinstance(right, int):
            return _power(left, right) if operator_ == "**" else number(operator.mul(*map(number, (left, right))))
        if operator_ == "**":
            return operator.pow(left, right)
        for many, times in ((left, right), (right, left)):
            if isinstance(many, str | bytes | list | tuple) and isinstance(times, int):
                fit(len(many) * times)
        if lists:
            limits.make(lists[0] * max(0, right if isinstance(right, int) else left))
        result = operator.mul(left, right)
        limits.use(result)
        return result

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        limits = limits_of(__context)
        limits.step(_CALL)
        if not isinstance(__obj, Macro):
            owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
            limits.use(owner)
            if isinstance(owner, list | tuple):
                limits.read(owner)  # ``index`` and ``count`` compare.
            given = {key: kwargs[key] for key in kwargs if key not in _SCOPE}
            for each in (*args, *given.values()):
                if not is_short(each):
                    limits.read(each)
            if isinstance(owner, str | bytes | int):
                if name == "join" and args:
                    args = (joinable(owner, args[0]), *args[1:])
                count_method(limits, name, owner, args, given)
        return super().call(__context, __obj, *args, **kwargs)

    def getitem(self, obj: Any, argument: Any) -> Any:
        # Nothing that a template is given has a tuple as its key, and the hash of nested tuples may take for ever.
        return self.undefined(obj=obj) if isinstance(argument, tuple) else super().getitem(obj, argument)

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


def _is_plain(node: nodes.Expr) -> bool:
    """Whether a node is a constant of the source or a list of constants. A mapping does not count: looking up a key
    hashes it, which takes forever for deeply nested tuples."""
    parts = node.items if isinstance(node, nodes.List | nodes.Tuple) else [node]
    return all(isinstance(each, nodes.Const) and not isinstance(each.value, Mapping) for each in parts)


@jinja2.pass_context
def _output(context: Context, value: Any) -> Any:
    if not is_short(value):
        limits_of(context).read(value)
    return value


@jinja2.pass_context
def _counted(context: Context, items: Iterable[Any]) -> Iterable[Any]:
    limits = limits_of(context)
    if not isinstance(items, list | tuple):
        return _rounds(items, limits)
    # Loops over lists keep their type, as a template may ask for their length.
    limits.step(len(items))
    return items


def _rounds(items: Iterable[Any], limits: Limits) -> Iterator[Any]:
    for item in items:
        limits.step()
        yield item


class _Fields:
    """Counts the output of the fields of one ``format``."""

    length = 0

    def format_field(self, value: Any, format_spec: str) -> Any:
        fit(self.length + sum(map(int, re.findall(r"\d+", format_spec))))
        text = super().format_field(value, format_spec)  # type: ignore[misc]
        self.length += len(text)
        fit(self.length)
        return text


class _Formatter(_Fields, SandboxedFormatter):
    pass


class _EscapeFormatter(_Fields, SandboxedEscapeFormatter):
    pass


def _power(left: int, right: int) -> Any:
    if abs(left) > 1 and abs(right) > MOST_NUMBER.bit_length():
        raise WithoutEnd("a number without end")
    result = operator.pow(number(left), right)
    return number(result) if isinstance(result, int) else result
