"""How ranks end, in small files that the worker reads: ranks are other processes, whose exceptions it must raise.

begun-<rank>           the rank came up
ended-<rank>.pickle    how it ended; a rank that was killed leaves none
"""

import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ft_assets.workers.training.memory import is_out_of_memory
from ft_resources.errors import UserError
from ft_resources.worker_context import Preempted

DONE, STOPPED, LOST_A_PEER, FAILED = "done", "stopped", "lost a peer", "failed"


class RanksFailed(Exception):
    """A rank failed for an internal reason; the text names rank and error, the log has the traceback."""


def write_begun(folder: Path, rank: int) -> None:
    (folder / f"begun-{rank}").write_text(str(os.getpid()))


def write_ending(folder: Path, rank: int, problem: BaseException | None) -> None:
    """Record how ``rank`` ended; ``problem`` is None if it finished its work."""
    error: BaseException | None = problem if isinstance(problem, UserError) else None
    if error is None and problem is not None:
        text = f"rank {rank}: {type(problem).__name__}: {str(problem)[:2000]}"
        error = (MemoryError if is_out_of_memory(problem) else RanksFailed)(text)
    whole = folder / f"ended-{rank}.pickle"
    part = whole.with_suffix(".part")
    part.write_bytes(pickle.dumps((time.time(), _how(problem), error)))
    part.rename(whole)


def run_to_its_end(folder: Path, rank: int, work: Callable[[], None]) -> NoReturn:
    """Run ``work`` as ``rank``, record how it ended, and exit: with 0 unless it failed, which ends the other ranks."""
    write_begun(folder, rank)
    problem: BaseException | None = None
    try:
        work()
    except BaseException as error:
        problem = error
        if not isinstance(error, Preempted):
            traceback.print_exc()
    write_ending(folder, rank, problem)
    sys.stdout.flush()
    sys.stderr.flush()
    # Libraries leave threads and atexit hooks that can hang or change the exit code.
    os._exit(0 if problem is None or isinstance(problem, Preempted) else 1)


def raise_ending(folder: Path) -> None:
    """Raise what ended the ranks of this node; return if all of them finished their work.

    One rank's failure spreads to the others: they lose their connections, or are killed without a record. So a rank's
    own record takes precedence, and among several the earliest.
    """
    found = (pickle.loads(path.read_bytes()) for path in folder.glob("ended-*.pickle"))
    endings = sorted(found, key=lambda ending: ending[0])
    begun = len(list(folder.glob("begun-*")))
    for _, how, error in endings:
        if how == FAILED:
            raise error
    if not begun:
        raise RanksFailed("the ranks did not start; the log says why")
    if len(endings) < begun or any(how != DONE for _, how, _ in endings):
        # Asked to stop, or killed: by the kernel, a node's end, a person. A later attempt resumes the work.
        raise Preempted


def _how(problem: BaseException | None) -> str:
    if problem is None:
        return DONE
    if isinstance(problem, Preempted | KeyboardInterrupt):
        return STOPPED
    return LOST_A_PEER if _is_lost_peer(problem) else FAILED


def _is_lost_peer(problem: BaseException) -> bool:
    """Whether a collective failed, which it does as soon as another rank is gone."""
    if any(kind.__name__ in ("DistError", "DistBackendError") for kind in type(problem).__mro__):
        return True
    text = str(problem)
    return isinstance(problem, RuntimeError) and ("gloo" in text.lower() or "NCCL" in text)
