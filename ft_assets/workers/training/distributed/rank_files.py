"""Communication between a training's rank and its worker, through files in a shared folder."""

import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ft_assets.workers.training.distributed.endings import write_ending
from ft_resources.errors import Hung, StoreUnavailable
from ft_resources.work import WorkSpec
from ft_resources.worker_context import WorkContext

if TYPE_CHECKING:
    from ft_assets.workers.training.distributed.hangs import HangWatch
    from ft_assets.workers.training.ranks import Ranks

EVENTS, GRACEFUL, STOP, ALIVE = "events.jsonl", "graceful", "stop", "alive"
SPEC, SCRATCH, RESULT = "spec.json", "scratch.json", "result.json"
_LOOK_S = 0.1


class RankContext(WorkContext):
    """A rank's context: like a worker's, but rank 0 reports to its worker instead of the store, and the other ranks
    report nothing."""

    def __init__(self, folder: Path, rank: int, local_rank: int) -> None:
        spec = WorkSpec.model_validate_json((folder / SPEC).read_bytes())
        super().__init__(spec, spec.open_store(), Path(json.loads((folder / SCRATCH).read_bytes())))
        self._folder, self._rank, self._local_rank = folder, rank, local_rank
        self._hangs: HangWatch | None = None
        self._events = (folder / EVENTS).open("a", buffering=1) if rank == 0 else None
        threading.Thread(target=self._look_for_stop, name="stop", daemon=True).start()

    @contextmanager
    def watching_for_hangs(self, ranks: "Ranks") -> Iterator[None]:
        """While inside, this rank ends with ``Hung`` once ``ranks`` wait too long for one of them."""
        from ft_assets.workers.training.distributed.hangs import HangWatch

        assert ranks.store is not None
        self._hangs = HangWatch(ranks.store, self._rank, ranks.nodes, keep=self.keep, end=self._end_hung)
        try:
            yield
        finally:
            self._hangs.close()

    def keep(self, name: str, data: bytes) -> None:
        """Store a diagnostic file with the attempt, if the store is available."""
        with suppress(StoreUnavailable):
            self.store.put(f"{self.spec.attempt_path}/{name}", data)

    def _end_hung(self, problem: Hung) -> None:
        print(problem, file=sys.stderr, flush=True)
        write_ending(self._folder, self._rank, problem)
        os._exit(1)

    def progress(self, phase: str, done: int = 0, total: int = 0, **extra: Any) -> None:
        if self._hangs is not None:
            self._hangs.step(done) if phase == "training" and done else self._hangs.pause()
        self._tell(progress={"phase": phase, "done": done, "total": total, **extra})

    def step(self, **metrics: Any) -> None:
        self._tell(step=metrics)

    @contextmanager
    def graceful(self) -> Iterator[None]:
        """While inside, the worker forwards a stop request and waits; elsewhere it ends the ranks at once."""
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
    """End this process as soon as the worker is gone, however it ended: nothing else would.

    The worker holds a lock on a file, which the operating system frees when it dies.
    """
    lock = (folder / ALIVE).open("rb")

    def wait() -> None:
        fcntl.flock(lock, fcntl.LOCK_SH)
        os._exit(1)

    threading.Thread(target=wait, name="worker", daemon=True).start()
