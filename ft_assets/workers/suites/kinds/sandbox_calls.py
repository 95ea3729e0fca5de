"""Tests in one process, the program in another, and only values between them; loaded by ``sandbox_process.py``.

The tests call the program's functions as if they were beside them. A call goes to the program's process as a line of
JSON, and a value comes back, which is made anew here: numbers, texts, lists, tuples, sets, dictionaries and the like.
Whatever else a program returns stays there and is known here by a number (``_Remote``). So nothing of the program runs
where the verdict is made: equality, builtins, frames, exits and everything it prints or patches are its own affair.
"""

import builtins
import json
import operator
import os
import sys
from collections.abc import Callable, Iterator, Set
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from io import BufferedReader
from types import ModuleType
from typing import Any

_LARGE = 1 << 62
# In the program's process: what its own objects are asked for.
_ASKED: dict[str, Callable[..., Any]] = {
    "call": lambda function, *values, **named: function(*values, **named),
    "eq": operator.eq,
    "getattr": getattr,
    "setattr": setattr,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "contains": operator.contains,
    **{each.__name__: each for each in (bool, iter, len, next, repr, str)},
}


def serve(program: str, asked: int, told: int) -> None:
    """Run the program, say so, and answer what is asked of it until nobody asks. Never returns a value to trust."""
    own: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(program, "program", "exec"), own)
    kept: list[Any] = []

    def keep(value: object) -> int:
        kept.append(value)
        return len(kept) - 1

    def answer(what: str, values: Any, named: Any) -> dict[str, Any]:
        if what == "name":
            if values[0] not in own:
                return {"none": True}
            value = own[values[0]]
            return {"module": True} if isinstance(value, ModuleType) else {"value": _encoded(value, keep)}
        return {"value": _encoded(_ASKED[what](*values, **named), keep)}

    with open(asked, "rb") as lines, open(told, "wb", buffering=0) as sink:
        sink.write(b"\n")
        for line in lines:
            what, values, named = json.loads(line)
            try:
                said = answer(what, _decoded(values, kept.__getitem__), _decoded(named, kept.__getitem__))
            except Exception as error:
                said = {"raised": [each.__name__ for each in type(error).__mro__], "text": str(error)}
            sink.write(json.dumps(said).encode() + b"\n")


def examine(tests: str, names: list[str], ask: int, answers: int) -> None:
    """Run the tests, with the program's values under ``names``. Raises, or ends this process, if they do not pass."""
    with open(answers, "rb") as lines:
        program = _Program(ask, lines)
        own: dict[str, Any] = {"__name__": "__main__"}
        for name in names:
            program.give(name, own)
        exec(compile(tests, "tests", "exec"), own)


class _Program:
    """The program's process, as its tests see it."""

    def __init__(self, ask: int, answers: BufferedReader) -> None:
        self._ask, self._answers = ask, answers
        self._line()

    def give(self, name: str, own: dict[str, Any]) -> None:
        """Put the program's value of that name into ``own``, if it has one; a module is imported here anew."""
        said = self._said("name", (name,), {})
        if "module" in said and name in sys.stdlib_module_names:
            own[name] = import_module(name)
        elif "value" in said:
            own[name] = self._value(said)

    def ask(self, what: str, *values: Any, **named: Any) -> Any:
        return self._value(self._said(what, values, named))

    def _said(self, what: str, values: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        data = json.dumps([what, _encoded(list(values), _number), _encoded(named, _number)]).encode() + b"\n"
        while data:
            data = data[os.write(self._ask, data) :]
        said = json.loads(self._line())
        if not isinstance(said, dict):
            raise TypeError("the program's process answered something else")
        return said

    def _value(self, said: dict[str, Any]) -> Any:
        if "raised" in said:
            raise _error(said["raised"], str(said.get("text")))
        return _decoded(said["value"], lambda number: _Remote(self, number))

    def _line(self) -> bytes:
        line = self._answers.readline()
        if not line.endswith(b"\n"):
            # Its process is gone, as by sys.exit: no ``except`` of a test may take that for an exception.
            os._exit(1)
        return line


class _Remote:
    """An object of the program that is no plain value. Nothing here is equal to it but another one."""

    def __init__(self, program: _Program, number: int) -> None:
        self.__dict__.update(_program=program, _number=number)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._program.ask("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._program.ask("setattr", self, name, value)

    def __call__(self, *values: Any, **named: Any) -> Any:
        return self._program.ask("call", self, *values, **named)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Remote) and bool(self._program.ask("eq", self, other))

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return bool(self._program.ask("bool", self))

    def __len__(self) -> int:
        return int(self._program.ask("len", self))

    def __repr__(self) -> str:
        return str(self._program.ask("repr", self))

    def __str__(self) -> str:
        return str(self._program.ask("str", self))

    def __contains__(self, value: Any) -> bool:
        return bool(self._program.ask("contains", self, value))

    def __getitem__(self, key: Any) -> Any:
        return self._program.ask("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._program.ask("setitem", self, key, value)

    def __iter__(self) -> Iterator[Any]:
        each = self._program.ask("iter", self)
        while True:
            said = self._program._said("next", (each,), {})
            if "raised" in said and "StopIteration" in said["raised"]:
                return
            yield self._program._value(said)


def _number(value: object) -> int:
    """What stands for an object of the program on its way back. Raises TypeError for any other."""
    if not isinstance(value, _Remote):
        raise TypeError(f"tests hand plain values to the program, and no {type(value).__name__}")
    number: int = value.__dict__["_number"]
    return number


def _error(kinds: list[str], text: str) -> Exception:
    """The nearest of Python's own exceptions that a text makes, and none that ends a test's own iteration."""
    for name in kinds:
        kind = getattr(builtins, str(name), None)
        ends = StopIteration | StopAsyncIteration | UnicodeError | BaseExceptionGroup
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, ends):
            return kind(text)
    return RuntimeError(text)


def _encoded(value: Any, number: Callable[[object], int]) -> Any:
    """A plain value as JSON; ``number`` stands for any other. Raises RecursionError for what contains itself."""

    def many(values: Any) -> list[Any]:
        return [_encoded(each, number) for each in values]

    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return int(value) if -_LARGE < value < _LARGE else {"int": hex(value)}
        case list():
            return many(value)
        case tuple():
            return {"tuple": many(value)}
        case dict():
            return {"dict": [many(pair) for pair in value.items()]}
        case frozenset():
            return {"frozenset": many(value)}
        case Set():
            return {"set": many(value)}
        case bytes() | bytearray():
            return {"bytes": value.hex()}
        case complex():
            return {"complex": [value.real, value.imag]}
        case Fraction() | Decimal():
            return {type(value).__name__: str(value)}
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return _encoded(value.item(), number)
    return {"object": number(value)}


_MADE: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "tuple": tuple,
    "dict": dict,
    "frozenset": frozenset,
    "set": set,
    "bytes": bytes.fromhex,
    "complex": lambda parts: complex(*parts),
    "Fraction": Fraction,
    "Decimal": Decimal,
}


def _decoded(said: Any, known: Callable[[int], Any]) -> Any:
    """The value of ``_encoded``. Raises TypeError, ValueError or KeyError for anything else."""
    if isinstance(said, list):
        return [_decoded(each, known) for each in said]
    if not isinstance(said, dict):
        return said
    ((kind, content),) = said.items()
    if kind == "object":
        return known(int(content))
    return _MADE[kind](_decoded(content, known))
