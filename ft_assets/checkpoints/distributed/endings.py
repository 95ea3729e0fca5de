"""How ranks end, as small files that the worker reads: its ranks are other processes, whose exceptions it must raise.

begun-<rank>           the rank came up
ended-<rank>.json      how it ended; a rank that was killed leaves none
"""

import json
import os
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from ft_resources.errors import UserError
from ft_resources.worker_context import Preempted

DONE, STOPPED, LOST_A_PEER, FAILED = "done", "stopped", "lost a peer", "failed"


class RanksFailed(Exception):
    """A rank failed for a reason of ours; the text names rank and error, the log has the traceback."""


def write_begun(folder: Path, rank: int) -> None:
    (folder / f"begun-{rank}").write_text(str(os.getpid()))


def write_ending(folder: Path, rank: int, problem: BaseException | None) -> None:
    """Leave behind how ``rank`` ended; ``problem`` is None where it did its work."""
    ending: dict[str, Any] = {"how": _how(problem), "at": time.time(), "rank": rank}
    if isinstance(problem, UserError):
        kind = type(problem)
        ending |= {"error": {"what": problem.what, "where": problem.where, "remedy": problem.remedy}}
        ending |= {"module": kind.__module__, "type": kind.__qualname__}
    elif problem is not None:
        ending |= {"type": type(problem).__name__, "text": str(problem)[:2000]}
    whole = folder / f"ended-{rank}.json"
    part = whole.with_suffix(".part")
    part.write_text(json.dumps(ending))
    part.rename(whole)


def raise_ending(folder: Path) -> None:
    """Raise what ended the ranks of this node; return where all of them did their work.

    One rank's trouble becomes the others': they lose their connections, or are ended without a word. So what a rank
    says of itself counts first, and of several the earliest.
    """
    endings = sorted((json.loads(path.read_bytes()) for path in folder.glob("ended-*.json")), key=lambda one: one["at"])
    begun = len(list(folder.glob("begun-*")))
    for ending in endings:
        if ending["how"] == FAILED:
            raise _problem(ending)
    if not begun:
        raise RanksFailed("the ranks did not start; the log says why")
    if len(endings) < begun or any(ending["how"] != DONE for ending in endings):
        # Asked to stop, or killed: by the kernel, a node's end, a person. What an attempt lost so is taken up again.
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


def _problem(ending: dict[str, Any]) -> Exception:
    """The exception of a rank, made again."""
    if "error" in ending:
        kind = _user_error(ending["module"], ending["type"])
        problem = kind.__new__(kind)
        UserError.__init__(problem, **ending["error"])
        return problem
    text = f"rank {ending['rank']}: {ending['type']}: {ending['text']}"
    return MemoryError(text) if ending["type"] in ("MemoryError", "OutOfMemoryError") else RanksFailed(text)


def _user_error(module: str, name: str) -> type[UserError]:
    """The class of a rank's error, which decides the attempt's outcome."""
    found = getattr(import_module(module), name, UserError)
    return found if isinstance(found, type) and issubclass(found, UserError) else UserError
