"""Tests in one process, the program in another, and only values between them; loaded by ``sandbox_process.py``.

The tests call the program's functions as if they were beside them. A call goes to the program's process as a line of
JSON, and a value comes back, which is made anew here: numbers, texts, lists, tuples, sets, dictionaries and the like.
Whatever else a program returns stays there and is known here by a number (``_Remote``), as a function that the tests
hand over is known there. So nothing of the program runs where the verdict is made: equality, builtins, frames, exits
and everything it patches are its own affair. What it prints is printed again here.
"""

import builtins
import io
import json
import operator
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, ValuesView
from importlib import import_module
from io import BufferedReader
from itertools import islice
from typing import Any

from ft_assets.workers.suites.kinds.sandbox_values import changed, decoded, encoded

# In the program's process: what its own objects are asked for.
_ASKED: dict[str, Callable[..., Any]] = {
    "call": lambda function, *values, **named: function(*values, **named),
    "eq": operator.eq,
    "getattr": getattr,
    "setattr": setattr,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "contains": operator.contains,
    "enter": lambda context: type(context).__enter__(context),
    "run": lambda coroutine: import_module("asyncio").run(coroutine),
    "exit": lambda context: type(context).__exit__(context, None, None, None),
    **{each.__name__: each for each in (abs, bool, hash, isinstance, iter, len, next, repr, str)},
    **{each: getattr(operator, each) for each in ("add", "sub", "mul", "truediv", "lt", "le", "gt", "ge")},
}


def serve(program: str, asked: int, told: int) -> None:
    """Run the program, say so, and answer what is asked of it until nobody asks. Never returns a value to trust."""
    own: dict[str, Any] = {"__name__": "__main__"}
    paper = io.BytesIO()
    printed = sys.stdout = io.TextIOWrapper(paper, "utf-8", "backslashreplace")
    exec(compile(program, "program", "exec"), own)
    # Each is kept for ever, so that no other gets its address.
    kept: list[Any] = []
    numbers: dict[int, int] = {}

    def keep(value: object) -> dict[str, Any]:
        if id(value) not in numbers:
            numbers[id(value)] = len(kept)
            kept.append(value)
        found = {"object": numbers[id(value)]}
        return {"coroutine": found} if isinstance(value, Coroutine) else found

    def known(number: int) -> Any:
        if number >= 0:
            return kept[number]

        def of_the_tests(*values: Any, **named: Any) -> Any:
            tell({"asked": number, "values": encoded(list(values), keep), "named": encoded(named, keep)})
            said = heard()
            if "raised" in said:
                raise _error(said["raised"], said["text"], {})
            return decoded(said["value"], known)

        return of_the_tests

    def answer(what: str, given: Any) -> dict[str, Any]:
        values, named = decoded(given, known)
        if what == "name":
            if values[0] not in own:
                return {"none": True}
            value = own[values[0]]
            if isinstance(value, type) and issubclass(value, Exception):
                return {"exception": _names(value)}
            return {"value": encoded(value, keep)}
        value = _ASKED[what](*values, **named)
        left = encoded([values, named], keep) if value is None else given
        return {"value": encoded(value, keep), **({} if left == given else {"left": left})}

    def tell(said: dict[str, Any]) -> None:
        sink.write(json.dumps(said).encode() + b"\n")

    def heard() -> dict[str, Any]:
        """Do what is asked, until the tests say what their own function returned."""
        for line in lines:
            question = json.loads(line)
            if isinstance(question, dict):
                return question
            try:
                said = answer(*question)
            except Exception as error:
                said = {"raised": _names(type(error)), "text": str(error)}
            printed.flush()
            tell({**said, "printed": paper.getvalue().decode()})
            paper.seek(0)
            paper.truncate()
        return {}

    with open(asked, "rb") as lines, open(told, "wb", buffering=0) as sink:
        sink.write(b"\n")
        builtins.input = known(-1)
        heard()


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
        self._objects: dict[int, _Remote] = {}
        # The first is the program's ``input``.
        self._functions: list[Callable[..., Any]] = [_typed]
        self._errors: dict[str, type[Exception]] = {}
        self._line()

    def give(self, name: str, own: dict[str, Any]) -> None:
        """Put the program's value of that name into ``own``, if it has one."""
        said = self.said("name", (name,), {})
        if "exception" in said:
            # A class of its own, so that an ``except`` of the tests can name it.
            base = type(_error(said["exception"], "", self._errors))
            own[name] = self._errors[str(said["exception"][0][1])] = type(name, (base,), {})
        elif "value" in said:
            own[name] = self.value(said)

    def ask(self, what: str, *values: Any, **named: Any) -> Any:
        return self.value(self.said(what, values, named))

    def said(self, what: str, values: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        given = [list(values), named]
        self._tell([what, encoded(given, self._number)])
        while "asked" in (said := self._heard()):
            self._tell(self._of_function(said))
        sys.stdout.write(str(said.get("printed", "")))
        if "left" in said and what == "call" and said.get("value", 0) is None:
            changed(given, self._decoded(said["left"]))
        return said

    def value(self, said: dict[str, Any]) -> Any:
        if "raised" in said:
            raise _error(said["raised"], str(said.get("text")), self._errors)
        return self._decoded(said["value"])

    def _of_function(self, said: dict[str, Any]) -> dict[str, Any]:
        """The answer of a test's function to the program that calls it."""
        try:
            function = self._functions[-1 - said["asked"]]
            value = function(*self._decoded(said["values"]), **self._decoded(said["named"]))
            return {"value": encoded(value, self._number)}
        except Exception as error:
            return {"raised": _names(type(error)), "text": str(error)}

    def _decoded(self, said: Any) -> Any:
        return decoded(said, lambda number: self._objects.setdefault(number, _Remote(self, number)))

    def _number(self, value: object) -> dict[str, Any]:
        """An object of the program, a function, or what is iterated once. Raises TypeError for any other."""
        if isinstance(value, _Remote):
            return {"object": value.__dict__["_number"]}
        if isinstance(value, Iterator | ValuesView):
            each = iter(value)
            return {"iterator": self._number(lambda: list(islice(each, 1)))}
        if not callable(value):
            raise TypeError(f"tests hand plain values and functions to the program, and no {type(value).__name__}")
        self._functions.append(value)
        return {"object": -len(self._functions)}

    def _tell(self, said: Any) -> None:
        data = json.dumps(said).encode() + b"\n"
        while data:
            data = data[os.write(self._ask, data) :]

    def _heard(self) -> dict[str, Any]:
        said = json.loads(self._line())
        if not isinstance(said, dict):
            raise TypeError("the program's process answered something else")
        return said

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

    def __hash__(self) -> int:
        return int(self._program.ask("hash", self))

    def _beside(self, what: str, other: object) -> Any:
        """With another object only: of a test's own number, the program would say how near it is to it."""
        return self._program.ask(what, self, other) if isinstance(other, _Remote) else NotImplemented

    def __lt__(self, other: object) -> Any:
        return self._beside("lt", other)

    def __le__(self, other: object) -> Any:
        return self._beside("le", other)

    def __gt__(self, other: object) -> Any:
        return self._beside("gt", other)

    def __ge__(self, other: object) -> Any:
        return self._beside("ge", other)

    def __add__(self, other: object) -> Any:
        return self._beside("add", other)

    def __sub__(self, other: object) -> Any:
        return self._beside("sub", other)

    def _times(self, what: str, *values: object) -> Any:
        """With a number too, where this is an object again."""
        found = self._program.ask(what, *values)
        return (
            found if all(isinstance(each, _Remote) for each in values) or isinstance(found, _Remote) else NotImplemented
        )

    def __mul__(self, other: object) -> Any:
        return self._times("mul", self, other)

    def __rmul__(self, other: object) -> Any:
        return self._times("mul", other, self)

    def __truediv__(self, other: object) -> Any:
        return self._times("truediv", self, other)

    def __abs__(self) -> Any:
        return self._program.ask("abs", self)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, _Remote) and bool(self._program.ask("isinstance", value, self))

    def __enter__(self) -> Any:
        return self._program.ask("enter", self)

    def __exit__(self, *_: object) -> None:
        self._program.ask("exit", self)

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

    def __delitem__(self, key: Any) -> None:
        self._program.ask("delitem", self, key)

    async def __awaited__(self) -> Any:
        return self._program.ask("run", self)

    def __iter__(self) -> Iterator[Any]:
        each = self._program.ask("iter", self)
        while True:
            try:
                yield next(each)
            except StopIteration:
                return

    def __next__(self) -> Any:
        said = self._program.said("next", (self,), {})
        if ["builtins", "StopIteration"] in said.get("raised", ()):
            raise StopIteration
        return self._program.value(said)


def _typed(*prompt: Any) -> str:
    """A line of input from the tests, which may have replaced ``input``."""
    return input(*prompt)


def _names(error: type[BaseException]) -> list[list[str]]:
    return [[each.__module__, each.__name__] for each in error.__mro__]


def _error(kinds: list[list[str]], text: str, own: dict[str, type[Exception]]) -> Exception:
    """The nearest exception that the tests can name: the program's or Python's own. None of those that end a test's own
    iteration, or by which a test says that it is to be skipped."""
    for module, name in kinds:
        kind = own.get(name) if module == "__main__" else getattr(sys.modules.get(module), name, None)
        ends = StopIteration | StopAsyncIteration | BaseExceptionGroup
        library = module == "__main__" or module.partition(".")[0] in sys.stdlib_module_names - {"unittest"}
        if library and isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, ends):
            return kind.__new__(kind, text)
    return RuntimeError(text)
