"""Which process runs which file: two take any, the others only files that mostly wait.

Whole runs, clusters and servers wait for other processes a third of their time. Two more processes take such files from
the start, so that the processors are busy meanwhile; they end when none is left.
"""

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
_COMPUTING = 2


class WaitingBeside(LoadFileScheduling):
    """Hands out whole files: computing ones to two processes, waiting ones to all."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        waiting = [scope for scope in self.workqueue if scope.startswith(WAITING)]
        computing = [scope for scope in self.workqueue if scope not in waiting]
        if self.nodes.index(node) >= _COMPUTING:
            if not waiting:
                node.shutdown()
                return
            chosen = waiting[0]
        else:
            chosen = (computing or waiting)[0]
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)
