"""Plain values as JSON, between a program's process and its tests'; loaded by ``sandbox_process.py`` in both."""

import builtins
import datetime
from collections import Counter, deque, namedtuple
from collections.abc import Callable, Set
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

_LARGE = 1 << 62
_TYPES = {
    name: each
    for name, each in vars(builtins).items()
    if isinstance(each, type) and not issubclass(each, BaseException)
}


def encoded(value: Any, other: Callable[[object], dict[str, Any]]) -> Any:
    """A plain value as JSON; ``other`` stands for any other. Raises RecursionError for what contains itself."""

    def many(values: Any) -> list[Any]:
        return [encoded(each, other) for each in values]

    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return int(value) if -_LARGE < value < _LARGE else {"int": hex(value)}
        case list():
            return many(value)
        case tuple():
            fields = getattr(type(value), "_fields", None)
            return {"tuple": many(value)} if fields is None else {"named": [type(value).__name__, *fields, many(value)]}
        case dict():
            return {"Counter" if type(value) is Counter else "dict": [many(pair) for pair in value.items()]}
        case frozenset():
            return {"frozenset": many(value)}
        case Set():
            return {"set": many(value)}
        case bytes() | bytearray():
            return {"bytes" if isinstance(value, bytes) else "bytearray": value.hex()}
        case deque():
            return {"deque": many(value)}
        case range():
            return {"range": [value.start, value.stop, value.step]}
        case datetime.date() | datetime.time():
            kind = next(each for each in (datetime.datetime, datetime.date, datetime.time) if isinstance(value, each))
            return {kind.__name__: value.isoformat()}
        case datetime.timedelta():
            return {"timedelta": [value.days, value.seconds, value.microseconds]}
        case slice():
            return {"slice": many([value.start, value.stop, value.step])}
        case type() if value in _TYPES.values():
            return {"type": value.__name__}
        case complex():
            return {"complex": [value.real, value.imag]}
        case Fraction() | Decimal():
            return {type(value).__name__: str(value)}
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return encoded(value.item(), other)
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray" and value.dtype.kind in "biufcSU":
        return {"ndarray": [many(value.ravel().tolist()), value.dtype.str, list(value.shape)]}
    return other(value)


@cache
def _named(name: str, *fields: str) -> Any:
    return namedtuple(name, fields)


def _array(values: list[Any], kind: str, shape: list[int]) -> Any:
    import numpy as np

    return np.array(values, kind).reshape(shape)


_MADE: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "tuple": tuple,
    "named": lambda parts: _named(*parts[:-1])(*parts[-1]),
    "dict": dict,
    "type": _TYPES.__getitem__,
    "slice": lambda parts: slice(*parts),
    "coroutine": lambda coroutine: coroutine.__awaited__(),
    "iterator": lambda following: (each[0] for each in iter(following, [])),
    "Counter": lambda pairs: Counter(dict(pairs)),
    "frozenset": frozenset,
    "set": set,
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "deque": deque,
    "range": lambda parts: range(*parts),
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda parts: datetime.timedelta(*parts),
    "ndarray": lambda parts: _array(*parts),
    "complex": lambda parts: complex(*parts),
    "Fraction": Fraction,
    "Decimal": Decimal,
}


def decoded(said: Any, known: Callable[[int], Any]) -> Any:
    """The value of ``encoded``. Raises TypeError, ValueError or KeyError for anything else."""
    if isinstance(said, list):
        return [decoded(each, known) for each in said]
    if not isinstance(said, dict):
        return said
    ((kind, content),) = said.items()
    if kind == "object":
        return known(content)
    return _MADE[kind](decoded(content, known))


def changed(given: Any, left: Any) -> Any:
    """``left``, in the lists, dictionaries and sets that were given, which a program changed in place."""
    match given, left:
        case list(), list():
            given[:] = [*map(changed, given, left), *left[len(given) :]]
        case dict(), dict():
            found = {key: changed(given.get(key), value) for key, value in left.items()}
            given.clear()
            given.update(found)
        case set(), set():
            given.clear()
            given.update(left)
        case (bytearray(), bytearray()) | (deque(), deque()):
            given.clear()
            given.extend(left)
        case tuple(), tuple():
            return tuple(map(changed, given, left))
        case _:
            if type(given).__name__ != "ndarray" or type(given) is not type(left):
                return left
            given[...] = left
    return given
