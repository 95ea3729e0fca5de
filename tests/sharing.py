"""Which process runs which file: as many as there are processors take any, those beside them only what mostly waits.

Whole runs, clusters and servers wait for other processes a third of their time. The processes beside take such files
from the start, so that the processors are busy meanwhile; they end when none is left. They collect nothing else.
"""

import os
from pathlib import Path

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

# A controller of pytest-xdist knows tests by their names only: no markers.
WAITING = (
    "tests/e2e/",
    "tests/chaos/",
    "tests/cluster/",
    "tests/docs/",
    "tests/k8s/",
    "tests/resources/launchers/",
    "tests/server/",
)
_ROOT = Path(__file__).parents[1]
_COMPUTING = len(os.sched_getaffinity(0))


def is_beside(worker: str) -> bool:
    """Whether a process of pytest-xdist, such as ``gw2``, only takes what waits; "" is a process that has no others."""
    return bool(worker) and int(worker.removeprefix("gw")) >= _COMPUTING


def collects(worker: str, path: Path) -> bool:
    """Whether a process looks for tests at ``path``, a file or a folder, where all of ``tests`` are asked for."""
    name = f"{path.relative_to(_ROOT).as_posix()}/"
    return not is_beside(worker) or any(name.startswith(each) or each.startswith(name) for each in WAITING)


class WaitingBeside(LoadFileScheduling):
    """Hands out whole files."""

    def schedule(self) -> None:
        """Start with the collection of a process that takes any file."""
        if self.collection is None:
            whole_first = sorted(self.registered_collections.items(), key=lambda each: -len(each[1]))
            self.registered_collections = dict(whole_first)
        super().schedule()

    def _check_nodes_have_same_collection(self) -> bool:
        whole, *others = map(frozenset, self.registered_collections.values())
        return all(other <= whole for other in others)

    def _assign_work_unit(self, node: WorkerController) -> None:
        waiting = [scope for scope in self.workqueue if scope.startswith(WAITING)]
        computing = [scope for scope in self.workqueue if scope not in waiting]
        if is_beside(node.gateway.id):
            if not waiting:
                node.shutdown()
                return
            chosen = waiting[0]
        else:
            chosen = (computing or waiting)[0]
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)
