"""numba's compiler, with a cache on disk that notices changes of everything that a function calls.

numba's own cache notices changes of the function's file only. After a change of another file it would silently run old
machine code.
"""

import inspect
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

_CONSTANTS = (bool, int, float, str, bytes, tuple, np.generic)


def compiled(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` for one signature, without Python's lock, kept on disk for later processes."""

    def compile_it(function: Callable[..., Any]) -> Any:
        kernel: Any = njit(nogil=True)(function)
        kernel._cache = _Cache(function)
        kernel.compile(signature)
        kernel.disable_compile()
        return kernel

    return compile_it


class _Cache(FunctionCache):
    """An entry is found only for the same sources of all that is called, and the same constants."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._sources = sha256("\n".join(_parts(function, set())).encode()).hexdigest()

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return (*super()._index_key(signature, codegen), self._sources)


def _parts(function: Any, seen: set[str]) -> Iterator[str]:
    """The source of ``function``, the constants that it uses, and the same of each function of ours that it calls."""
    yield inspect.getsource(function)
    for name in sorted(set(function.__code__.co_names) - seen):
        value = function.__globals__.get(name)
        called = getattr(value, "py_func", None) if isinstance(value, Dispatcher) else None
        called = value._defn if isinstance(value, _Intrinsic) else called
        if called is not None:
            yield from _parts(called, seen | {name})
        elif isinstance(value, np.ndarray):
            yield f"{name}={value.dtype}{value.tolist()}"
        elif isinstance(value, _CONSTANTS):
            yield f"{name}={value!r}"
