"""The local engine: a function over many items, in processes on this machine, in order and with bounded memory."""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from typing import Any, Literal, Protocol, TypeVar

from ft_resources.environment import whole_number
from ft_resources.errors import UserError, WorkFailed

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Purpose:
    """What the processes are for, in the words of errors: the work, its location, and the variables for their number
    and for the engine."""

    work: str
    where: str
    variable: str
    engine: str


CURATION = Purpose(work="curation", where="dataset", variable="FT_CURATION_PROCESSES", engine="FT_CURATION_ENGINE")


class Mapper(Protocol):
    """``map(function, items)``: results in the order of the items; ``function`` must be a module-level function."""

    def __call__(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]: ...


def in_process(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """One item after another in this process, for little work that does not justify processes."""
    return map(function, items)


@contextmanager
def processes(count: int, purpose: Purpose = CURATION) -> Iterator[Mapper]:
    """A mapper over ``count`` processes, started once for all its maps.

    At most two items per process are in flight, so memory does not grow with the number of items. Raises WorkFailed if
    a process dies (usually killed for memory).
    """
    start_early()
    with ProcessPoolExecutor(count, mp_context=_context(), initializer=single_threaded) as pool:

        def run(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            under_way: deque[Future[Any]] = deque()
            try:
                for item in items:
                    under_way.append(pool.submit(function, item))
                    if len(under_way) >= 2 * count:
                        yield under_way.popleft().result()
                while under_way:
                    yield under_way.popleft().result()
            except BrokenProcessPool as error:
                raise WorkFailed(
                    f"a {purpose.work} process died, most likely for lack of memory",
                    where=purpose.where,
                    remedy=f"Give the worker more memory, or lower {purpose.variable}.",
                ) from error
            finally:
                for future in under_way:
                    future.cancel()

        yield run


def start_early() -> None:
    """Let the fork server import and load what processes need while the caller does other work."""
    _context()
    forkserver.ensure_running()


def _context() -> ForkServerContext:
    # Forked from a server without threads: a fork of this process (the heartbeat, Arrow's pool) may hang.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ft_assets.workers.datasets.engine.warm"])
    return context


def process_count(purpose: Purpose = CURATION) -> int:
    """The number of processes: the value of the purpose's variable, else one for each core this process may use."""
    return whole_number(purpose.variable, len(os.sched_getaffinity(0)), at_least=1)


def engine_of(purpose: Purpose) -> Literal["local", "ray"]:
    """Where the work runs, from the purpose's variable. Raises UserError for an unknown engine."""
    name = os.environ.get(purpose.engine) or "local"
    if name == "local":
        return "local"
    if name != "ray":
        raise UserError(f"there is no engine {name!r}", where=purpose.engine, remedy="Set it to local or ray.")
    if find_spec("ray") is None:
        raise UserError("Ray is not installed", where=purpose.engine, remedy="Install the worker with the extra ray.")
    return "ray"


def single_threaded() -> None:
    """Kernels and tokenizers run one per core; additional thread pools of libraries would only slow them down."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
