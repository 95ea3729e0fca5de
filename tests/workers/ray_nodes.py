"""A Ray cluster of two nodes on this machine that share no disk, as far as Python files go."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

_STORE_BYTES = 100 << 20
# A lost node is missed after two seconds; Ray's own settings take half a minute.
_IMPATIENT = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
_HIDDEN = "TEST_HIDDEN_FOLDER"
# Functions of tests travel by name, so workers must find the package of the tests wherever they are started.
_PROJECT = str(Path(__file__).parents[2])


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The cluster, and the temporary folder of each node in the order in which they were added."""

    cluster: Any
    scratch: tuple[Path, Path]
    hidden: Path

    def add(self, scratch: Path) -> Any:
        """One node more, with a core. On a busy machine its start may take longer than Ray waits."""
        for tries in (1, 2, 3):
            try:
                return self.cluster.add_node(
                    num_cpus=1,
                    object_store_memory=_STORE_BYTES,
                    env_vars={"TMPDIR": str(scratch), "PYTHONPATH": _PROJECT, _HIDDEN: str(self.hidden)},
                    include_dashboard=False,
                    **({} if self.cluster.head_node else {"_system_config": _IMPATIENT}),
                )
            except Exception as error:
                if tries == 3 or "timed out during startup" not in str(error):
                    raise
        return None

    def folders(self, node: int) -> list[Path]:
        """The folders of carried files on a node."""
        return [path for path in self.scratch[node].glob("ft-*") if path.is_dir()]

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
