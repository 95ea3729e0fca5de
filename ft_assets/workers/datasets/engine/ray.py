"""The engine for data that need more cores than one node has: the same functions as tasks of a Ray cluster.

Nodes share no disk. Items and results travel through Ray's object store, and files that all items name go to each node
once. Ray repeats the tasks of a worker or a node that died. Tasks write nothing that remains; the caller does.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from ft_assets.workers.datasets.engine.carried import Carried, Needed
from ft_assets.workers.datasets.engine.local import Mapper, Purpose, single_threaded
from ft_assets.workers.datasets.engine.versions import deciding_versions, differing
from ft_resources.errors import UserError, WorkFailed

# The cores are counted again after this many tasks: an autoscaler adds nodes while tasks wait.
_COUNTED_EVERY = 64


def on_ray(purpose: Purpose, needed: Needed | None = None, *, at_once: int = 1) -> Mapper:
    """A mapper over the cores of the cluster that Ray is connected to, or that ``RAY_ADDRESS`` names.

    A task takes ``at_once`` items, and at most two tasks per core are in flight. What ``function`` raises is raised
    here. A map raises UserError without a cluster, and WorkFailed if a task's workers die in every try, or if a node
    has other versions of what decides results.
    """

    def run(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        import ray
        from ray.exceptions import RayError, RayTaskError

        _connect(purpose)
        # By default Ray fills half of the first node before it uses another.
        task = ray.remote(scheduling_strategy="SPREAD")(_run)
        files, versions = Carried.of(needed) if needed else None, tuple(deciding_versions().items())
        source, under_way, room = iter(items), deque[Any](), 0
        try:
            for number, some in enumerate(iter(lambda: list(islice(source, at_once)), [])):
                if number % _COUNTED_EVERY == 0:
                    room = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
                under_way.append(task.remote(function, some, files, versions))
                if len(under_way) >= room:
                    yield from ray.get(under_way.popleft())
            while under_way:
                yield from ray.get(under_way.popleft())
        except RayTaskError as error:
            raise error.cause from None
        except RayError as error:
            raise WorkFailed(
                f"a {purpose.work} task on Ray ended without a result each time: {type(error).__name__}",
                where=purpose.where,
                remedy="Most likely its node lacks memory: give nodes more for each core. See Ray's logs.",
            ) from error
        finally:
            for waiting in under_way:
                ray.cancel(waiting)

    return run


def _connect(purpose: Purpose) -> None:
    """Connect to ``RAY_ADDRESS``. Without it Ray would start on this machine alone: the local engine, but slower."""
    import ray

    if ray.is_initialized():
        return
    try:
        ray.init(address=_address(), log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(
            f"there is no Ray cluster to connect to ({error})",
            where="RAY_ADDRESS",
            remedy=f"Set it to HOST:PORT of the cluster's head, or {purpose.engine} to local.",
        ) from error


def _address() -> str:
    address = os.environ.get("RAY_ADDRESS", "")
    if not address:
        raise ValueError("the variable is not set")
    return address


def _run(
    function: Callable[[Any], Any], items: list[Any], files: Carried | None, versions: tuple[tuple[str, str], ...]
) -> list[Any]:
    """The task: ``function`` of each item, on a node."""
    _prepare_process(versions)
    if files:
        folder = files.folder()
        items = [files.moved(item, folder) for item in items]
    return [function(item) for item in items]


@lru_cache(maxsize=1)
def _prepare_process(versions: tuple[tuple[str, str], ...]) -> None:
    """Once per process and caller. Raises WorkFailed if this node might give other bytes than the caller's."""
    single_threaded()
    others = differing(deciding_versions(), dict(versions))
    if others:
        raise WorkFailed(
            f"the node has {others}, and might give other bytes",
            where=os.uname().nodename,
            remedy="Run the cluster's nodes with the image of the worker's release.",
        )
