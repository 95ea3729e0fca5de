"""One rank of a training: ``python -m torch.distributed.run … -m ft_assets.checkpoints.distributed.rank FOLDER``.

It talks to its worker through files in FOLDER, which the worker made: ``spec.json`` and ``scratch.json`` come in;
``events.jsonl`` (of rank 0), ``graceful`` and the endings go out; ``stop`` asks it to stop; ``alive`` is locked by
the worker for as long as it lives.
"""

import fcntl
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ft_assets.checkpoints.distributed.endings import write_begun, write_ending
from ft_resources.store import Store
from ft_resources.work import WorkSpec
from ft_resources.worker_context import Preempted, WorkContext

EVENTS, GRACEFUL, STOP, ALIVE = "events.jsonl", "graceful", "stop", "alive"
SPEC, SCRATCH, RESULT = "spec.json", "scratch.json", "result.json"
_LOOK_S = 0.1


class RankContext(WorkContext):
    """What a rank may do: the same as a worker, but rank 0 tells its worker what a worker tells the store, and the
    others tell nobody."""

    def __init__(self, folder: Path, rank: int, local_rank: int) -> None:
        spec = WorkSpec.model_validate_json((folder / SPEC).read_bytes())
        super().__init__(spec, Store(spec.store_url), Path(json.loads((folder / SCRATCH).read_bytes())))
        self._folder, self._local_rank = folder, local_rank
        self._events = (folder / EVENTS).open("a", buffering=1) if rank == 0 else None
        threading.Thread(target=self._look_for_stop, name="stop", daemon=True).start()

    def progress(self, phase: str, done: int = 0, total: int = 0, **extra: Any) -> None:
        self._tell(progress={"phase": phase, "done": done, "total": total, **extra})

    def step(self, **metrics: Any) -> None:
        self._tell(step=metrics)

    @contextmanager
    def graceful(self) -> Iterator[None]:
        """While inside, the worker passes a stop request on and waits; elsewhere it ends the ranks at once."""
        self._mark(graceful=True)
        try:
            with super().graceful():
                yield
        finally:
            self._mark(graceful=False)

    @contextmanager
    def abrupt(self) -> Iterator[None]:
        self._mark(graceful=False)
        with super().abrupt():
            yield
        self._mark(graceful=True)

    def _mark(self, *, graceful: bool) -> None:
        marker = self._folder / GRACEFUL
        if self._local_rank == 0:
            marker.touch() if graceful else marker.unlink(missing_ok=True)

    def _tell(self, **event: Any) -> None:
        if self._events is not None:
            self._events.write(json.dumps(event) + "\n")

    def _look_for_stop(self) -> None:
        while not (self._folder / STOP).exists():
            time.sleep(_LOOK_S)
        self._stopping.set()


def live_with_worker(folder: Path) -> None:
    """End this process as soon as the worker is gone, by whatever way: nobody else would.

    The worker holds a lock on a file, which the operating system frees when it dies.
    """
    lock = (folder / ALIVE).open("rb")

    def wait() -> None:
        fcntl.flock(lock, fcntl.LOCK_SH)
        os._exit(1)

    threading.Thread(target=wait, name="worker", daemon=True).start()


def main() -> None:
    """Work as a rank, leave how it ended, and exit with 0 unless it failed, as that ends the other ranks."""
    folder = Path(sys.argv[1])
    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    live_with_worker(folder)
    write_begun(folder, rank)
    if rank:
        # What all ranks would say alike is said once; errors are said by whoever has them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    problem: BaseException | None = None
    try:
        from ft_assets.checkpoints.train import train_as_rank

        result = train_as_rank(RankContext(folder, rank, local_rank))
        if rank == 0:
            (folder / RESULT).write_text(json.dumps(result.facts))
    except BaseException as error:
        problem = error
        if not isinstance(error, Preempted):
            traceback.print_exc()
    write_ending(folder, rank, problem)
    sys.stdout.flush()
    sys.stderr.flush()
    # Libraries leave threads and atexit hooks behind that can hang.
    os._exit(0 if problem is None or isinstance(problem, Preempted) else 1)


if __name__ == "__main__":
    main()
