"""Chunks on Ray: this process reads lines, writes results, and asks the cache; nodes need neither disk nor store."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow as pa

from ft_assets.workers.datasets.engine.carried import Needed
from ft_assets.workers.datasets.engine.chunks import ChunkResult, ChunkTask, cache_key, finished, from_cache
from ft_assets.workers.datasets.engine.local import CURATION
from ft_assets.workers.datasets.engine.prepare import PrepareSettings, prepare
from ft_assets.workers.datasets.engine.ray import on_ray

_INDEX, _NAMES = "index", "names"
_Lines = tuple[bytes, bool, PrepareSettings]


def run_chunks_on_ray(tasks: Iterable[ChunkTask]) -> Iterator[ChunkResult]:
    """``run_chunk`` for every task, on the cluster (``on_ray``), in the tasks' order."""
    remaining = iter(tasks)
    first = next(remaining, None)
    if first is None:
        return
    # Tasks under way, and between them results from the cache.
    order: deque[ChunkResult | tuple[ChunkTask, str]] = deque()

    def unknown() -> Iterator[_Lines]:
        for task in chain([first], remaining):
            lines = task.lines()
            key = cache_key(lines, task)
            known = from_cache(task, key)
            order.append(known or (task, key))
            if not known:
                yield lines, task.ended, task.settings

    for batch in on_ray(CURATION, _needed(first.settings))(_prepare, unknown()):
        while isinstance(done := order.popleft(), ChunkResult):
            yield done
        yield finished(*done, batch)
    # After the last task only results from the cache are left.
    yield from (done for done in order if isinstance(done, ChunkResult))


def _needed(settings: PrepareSettings) -> Needed | None:
    files = {} if settings.index is None else {_INDEX: Path(settings.index)}
    if settings.names:
        folder = Path(settings.names.folder)
        files |= {f"{_NAMES}/{path.relative_to(folder)}": path for path in folder.rglob("*") if path.is_file()}
    return Needed(files=files, moved=_moved) if files else None


def _moved(lines: _Lines, folder: Path) -> _Lines:
    data, ended, settings = lines
    index = settings.index and str(folder / _INDEX)
    names = settings.names and replace(settings.names, folder=str(folder / _NAMES))
    return data, ended, replace(settings, index=index, names=names)


def _prepare(lines: _Lines) -> pa.RecordBatch:
    data, ended, settings = lines
    return prepare(data, ended=ended, settings=settings)
