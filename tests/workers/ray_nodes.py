"""A Ray cluster of two nodes on this machine that share no disk, as far as Python files go."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ft_resources.errors import BadData

_STORE_BYTES = 100 << 20
# However busy the machine is, no node counts as lost that lives; one that ends says so.
_PATIENT = {"health_check_timeout_ms": 600_000, "health_check_failure_threshold": 100}
_STARTED_WITHIN_S = 600
_HIDDEN = "TEST_HIDDEN_FOLDER"
# Functions of tests travel by name, so workers must find the package of the tests wherever they are started.
_PROJECT = str(Path(__file__).parents[2])


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The cluster, and the temporary folder of each node in the order in which they were added."""

    cluster: Any
    scratch: tuple[Path, Path]
    hidden: Path
    known: frozenset[Path] = frozenset()

    def from_now(self) -> "Nodes":
        """The same, for which folders that were carried before do not count."""
        return replace(self, known=frozenset(path for node in (0, 1) for path in self.folders(node)))

    def add(self, scratch: Path) -> Any:
        """One node more, with a core. On a busy machine its start may take longer than Ray waits."""
        for tries in (1, 2, 3):
            try:
                node = self.cluster.add_node(
                    wait=False,
                    num_cpus=1,
                    object_store_memory=_STORE_BYTES,
                    env_vars={"TMPDIR": str(scratch), "PYTHONPATH": _PROJECT, _HIDDEN: str(self.hidden)},
                    include_dashboard=False,
                    include_log_monitor=False,
                    no_monitor=True,
                    **({} if self.cluster.head_node else {"_system_config": _PATIENT}),
                )
                break
            except Exception as error:
                if tries == 3 or "timed out during startup" not in str(error):
                    raise
        self.cluster._wait_for_node(node, timeout=_STARTED_WITHIN_S)
        return node

    def lose(self, node: Any) -> None:
        """End the node under the tasks that it has."""
        for started in node.all_processes["raylet"]:
            started.process.terminate()
            started.process.wait()
        self.cluster.remove_node(node, allow_graceful=False)

    def folders(self, node: int) -> list[Path]:
        """The folders of carried files on a node."""
        return [path for path in self.scratch[node].glob("ft-*") if path.is_dir() and path not in self.known]

    def both_took_part(self) -> bool:
        """Whether both have carried files. On a busy machine one may do all before the other's worker has started."""
        return all(self.folders(number) for number in (0, 1))


@contextmanager
def two_nodes(hidden: Path) -> Iterator[Nodes]:
    """Two nodes with a core each, connected to. Their workers may open nothing below ``hidden``."""
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from ray.cluster_utils import Cluster

    with TemporaryDirectory() as folder:
        nodes = Nodes(cluster=Cluster(), scratch=(Path(folder, "node-0"), Path(folder, "node-1")), hidden=hidden)
        try:
            for path in nodes.scratch:
                path.mkdir()
                nodes.add(path)
            ray.init(
                address=nodes.cluster.address,
                log_to_driver=False,
                configure_logging=False,
                runtime_env={"worker_process_setup_hook": hide},
            )
            yield nodes
        finally:
            ray.shutdown()
            nodes.cluster.shutdown()


def hide() -> None:
    """Refuse the opening of files of the hidden folder in this process."""
    hidden = os.environ[_HIDDEN]

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(hidden):
            raise PermissionError(f"{arguments[0]} is on another node")

    sys.addaudithook(refuse)


# Functions for tasks: workers import no more than this file for them.


def refuse_13(number: int) -> int:
    if number == 13:
        raise BadData("unlucky", where="row 13", remedy="Leave it out.")
    return number


def die_once(number: int) -> int:
    """Dies once on each node that it runs on."""
    marker = Path(tempfile.gettempdir(), "died")
    if not marker.exists():
        marker.touch()
        die(number)
    return number


def die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def where(number: int) -> tuple[int, str]:
    """The number, and the temporary folder of the node; so slowly that other nodes can take part."""
    time.sleep(0.1)
    return number, tempfile.gettempdir()
