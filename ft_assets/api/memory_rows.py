"""Rows in memory where the API takes a file of rows."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

Arguments = ParamSpec("Arguments")
Source = TypeVar("Source")
Result = TypeVar("Result")
_FILE = "rows.jsonl"


class Table(Protocol):
    """A data frame of pandas or polars, or another table with Arrow's stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class Split(Protocol):
    """A ``datasets.Dataset`` or ``IterableDataset``."""

    def with_format(self, type: str) -> Any: ...


MemoryRows = Iterable[Mapping[str, Any]] | Table | Split


def takes_rows(
    call: Callable[Concatenate[Source, Arguments], Result],
) -> Callable[Concatenate[Source | MemoryRows, Arguments], Result]:
    """``call``, whose first argument names files, so that it takes rows in memory as well: as a file ``rows.jsonl``."""

    name = next(iter(signature(call).parameters))

    @wraps(call)
    def taking(*given: Any, **named: Any) -> Result:
        given = (named.pop(name), *given) if name in named else given
        with _as_file(*given[:1]) as source:
            return call(source, *given[1:], **named)

    return cast(Callable[Concatenate[Source | MemoryRows, Arguments], Result], taking)


@contextmanager
def _as_file(source: Any) -> Iterator[Any]:
    named = isinstance(source, str | Path) or (
        isinstance(source, Sequence) and bool(source) and all(isinstance(each, str | Path) for each in source)
    )
    if named:
        yield source
        return
    # Arrow takes a moment to import, which callers with files should not wait for.
    from ft_assets.workers.datasets.intake.in_memory import write_rows

    with tempfile.TemporaryDirectory(prefix="ft-rows-") as scratch:
        file = Path(scratch, _FILE)
        write_rows(source, file)
        yield file
