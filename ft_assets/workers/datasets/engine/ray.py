"""The same chunks on Ray Data, for uploads that need more cores than one node has (extra ``ray``).

Lines and results travel through Ray's object store, so the nodes share nothing else.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ft_assets.workers.datasets.engine.chunks import ChunkResult, ChunkTask, from_ipc, notes_of, to_ipc
from ft_assets.workers.datasets.engine.prepare import PrepareSettings, prepare

# Tasks handed to Ray at once; this bounds what the driver holds in memory.
_WINDOW = 64


def run_chunks_on_ray(tasks: Iterable[ChunkTask]) -> Iterator[ChunkResult]:
    """``run_chunk`` for every task, on the cluster that Ray is connected to, in the tasks' order."""
    window: list[ChunkTask] = []
    for task in tasks:
        window.append(task)
        if len(window) == _WINDOW:
            yield from _run(window)
            window = []
    if window:
        yield from _run(window)


def _run(tasks: list[ChunkTask]) -> Iterator[ChunkResult]:
    import ray

    index = tasks[0].settings.index
    # The index must be sent to a node; the node has no other access to it.
    shared = ray.put(Path(index).read_bytes()) if index else None
    items = [{"number": number, "lines": task.lines(), "ended": task.ended} for number, task in enumerate(tasks)]
    work = partial(_prepare, settings=tasks[0].settings, index=shared)
    rows = ray.data.from_items(items, override_num_blocks=len(items)).map(work)
    done: dict[int, bytes] = {row["number"]: row["batch"] for row in rows.iter_rows()}
    for number, task in enumerate(tasks):
        batch = from_ipc(done[number])
        Path(task.target).write_bytes(done[number])
        yield ChunkResult(path=task.target, examples=batch.num_rows, notes=notes_of(batch.schema), cached=False)


def _prepare(row: dict[str, Any], settings: PrepareSettings, index: Any) -> dict[str, Any]:
    import hashlib
    import tempfile

    import ray

    if index is not None:
        data = ray.get(index)
        local = Path(tempfile.gettempdir()) / f"ft-index-{hashlib.sha256(data).hexdigest()}"
        if not local.exists():
            part = local.with_suffix(f".{row['number']}")
            part.write_bytes(data)
            part.rename(local)
        settings = replace(settings, index=str(local))
    batch = prepare(row["lines"], ended=row["ended"], settings=settings)
    return {"number": row["number"], "batch": to_ipc(batch)}
