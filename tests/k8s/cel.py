"""The part of CEL (Common Expression Language) that our admission policy is written in, so that it is tried without an
API server. What is not known here is an error; so is a field that is not there, as in CEL.

It gave the same verdicts as a whole implementation (the package ``common-expression-language`` 0.10), but for
``split``, which that lacks.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

_TOKEN = re.compile(r"""\s*(?:("[^"]*")|([A-Za-z_]\w*)|(&&|\|\||==|!=|[!?:.,()\[\]+]))""")
Scope = Mapping[str, Any]
Value = Callable[[Scope], Any]


def evaluate(expression: str, scope: Scope) -> Any:
    """The value of an expression. Raises KeyError for a field that is not there."""
    parser = _Parser(expression)
    value = parser.ternary()
    assert parser.next() == "", parser.rest
    return value(scope)


class _Parser:
    def __init__(self, text: str) -> None:
        self.rest: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            assert found, text[at:]
            self.rest.append(found[0].strip())
            at = found.end()

    def next(self) -> str:
        return self.rest[0] if self.rest else ""

    def take(self, *wanted: str) -> str:
        token = self.next()
        assert token
        assert not wanted or token in wanted, (token, wanted)
        return self.rest.pop(0)

    def ternary(self) -> Value:
        condition = self.either()
        if self.next() != "?":
            return condition
        self.take("?")
        yes = self.ternary()
        self.take(":")
        no = self.ternary()
        return lambda scope: yes(scope) if _truth(condition(scope)) else no(scope)

    def either(self) -> Value:
        left = self.both()
        while self.next() == "||":
            self.take()
            left = (lambda a, b: lambda scope: _truth(a(scope)) or _truth(b(scope)))(left, self.both())
        return left

    def both(self) -> Value:
        left = self.relation()
        while self.next() == "&&":
            self.take()
            left = (lambda a, b: lambda scope: _truth(a(scope)) and _truth(b(scope)))(left, self.relation())
        return left

    def relation(self) -> Value:
        left = self.sum()
        if self.next() not in ("==", "!=", "in"):
            return left
        operator, right = self.take(), self.sum()
        if operator == "in":
            return lambda scope: left(scope) in right(scope)
        return lambda scope: (left(scope) == right(scope)) is (operator == "==")

    def sum(self) -> Value:
        left = self.unary()
        while self.next() == "+":
            self.take()
            left = (lambda a, b: lambda scope: a(scope) + b(scope))(left, self.unary())
        return left

    def unary(self) -> Value:
        if self.next() == "!":
            self.take()
            value = self.unary()
            return lambda scope: not _truth(value(scope))
        return self.members(self.primary())

    def primary(self) -> Value:
        token = self.take()
        if token == "(":
            value = self.ternary()
            self.take(")")
            return value
        if token == "[":
            self.take("]")
            return lambda scope: []
        if token.startswith('"'):
            return lambda scope: token[1:-1]
        if token == "has":
            self.take("(")
            value = self.members(self.primary())
            self.take(")")
            return lambda scope: _has(value, scope)
        assert token.isidentifier(), token
        return lambda scope: scope[token]

    def members(self, value: Value) -> Value:
        while self.next() in (".", "["):
            if self.take() == "[":
                value = _item(value, self.ternary())
                self.take("]")
                continue
            name = self.take()
            value = self.call(value, name) if self.next() == "(" else _field(value, name)
        return value

    def call(self, value: Value, name: str) -> Value:
        self.take("(")
        if name in ("all", "exists"):
            each = self.take()
            self.take(",")
            test = self.ternary()
            self.take(")")
            fold = all if name == "all" else any
            return lambda scope: fold(_truth(test({**scope, each: item})) for item in value(scope))
        argument = self.ternary()
        self.take(")")
        methods: dict[str, Callable[[str, str], Any]] = {"startsWith": str.startswith, "split": str.split}
        method = methods[name]
        return lambda scope: method(value(scope), argument(scope))


def _item(value: Value, key: Value) -> Value:
    return lambda scope: value(scope)[key(scope)]


def _field(value: Value, name: str) -> Value:
    return lambda scope: value(scope)[name]


def _has(value: Value, scope: Scope) -> bool:
    """Whether the last field is there. The fields before it have to be, which none of our expressions leaves open."""
    try:
        value(scope)
    except KeyError:
        return False
    return True


def _truth(value: Any) -> bool:
    assert isinstance(value, bool), value
    return value
