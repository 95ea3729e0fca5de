"""User errors as Dagster's pages show them: the sentence, where, and what to do, without a traceback."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ft_resources import errors
from ft_resources.dagster_private import DagsterUserCodeProcessError, SerializableErrorInfo

P = ParamSpec("P")
R = TypeVar("R")


def told(function: Callable[P, R]) -> Callable[P, R]:
    """What an asset, a check or an op does, with its user errors told as such: nobody mends a file by Dagster's stack.

    Dagster shows an error from another process as that process tells it, and no stack of its own.
    """
    if inspect.isgeneratorfunction(function):

        @wraps(function)
        def yields(*args: P.args, **named: P.kwargs) -> Any:
            with _told():
                yield from function(*args, **named)

        return yields

    @wraps(function)
    def returns(*args: P.args, **named: P.kwargs) -> R:
        with _told():
            return function(*args, **named)

    return returns


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except errors.UserError as error:
        kind = type(error)
        known = getattr(errors, kind.__name__, None) is kind
        name = kind.__name__ if known else f"{kind.__module__}.{kind.__name__}"
        raise DagsterUserCodeProcessError.from_error_info(SerializableErrorInfo(str(error), [], name)) from error
