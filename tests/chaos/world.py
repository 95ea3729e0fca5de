"""One piece of work on a cluster of its own, with a run worker and a daemon that are started again when they die."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ft_assets.control.registry.register import register_recipe
from ft_resources.errors import UserError
from ft_resources.kubernetes.orphans import MARGIN_S
from ft_resources.store import Store
from ft_resources.work import Resources, WorkRequest
from tests.chaos.processes import Orders, start_daemon, start_run_worker, tick
from tests.cluster.cluster import Cluster
from tests.cluster.jobs import JobController
from tests.cluster.objects import NAMESPACES, NODES, PODS
from tests.e2e.project import make_project
from tests.fake_worker import LET_GO
from tests.resources.kubernetes.specs import IMAGE

TENANT = "acme"
_RECIPE = "tiny.v1"
_SMALL = {"cpus_per_gpu": 0.1, "memory_gib_per_gpu": 2.0, "scratch_gib": 1.0, "cache": {"size_gib": 1.0}}
_RESTARTED_AFTER_S = 0.3
_RETRIES = 10
_PATIENCE_S = 600.0


class World:
    """The work, and hands on everything that it runs on. ``seconds`` is how long its worker takes."""

    def __init__(self, folder: Path, cluster: Cluster, store: Store, orders: Orders, *, seconds: float) -> None:
        self.folder, self.cluster, self.store, self.orders, self.seconds = folder, cluster, store, orders, seconds
        self.problems: list[str] = []
        self.restarts = 0
        self._run: BaseProcess | None = None
        self._daemon: BaseProcess | None = None
        self._stopping = threading.Event()
        self.run_over = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._keep_run, self._keep_daemon)]
        for thread in self._threads:
            thread.start()

    def strikes(self, times: int) -> int:
        """A fault struck so often: after the first time the work that is held may end."""
        if times and not self.store.exists(LET_GO):
            self.store.put(LET_GO, b"")
        return int(times)

    def run_worker_lives(self) -> bool:
        return self._run is not None and self._run.exitcode is None

    def kill_run_worker(self) -> bool:
        """SIGKILL; whether there was one."""
        return _kill(self._run)

    def kill_daemon(self) -> bool:
        return _kill(self._daemon)

    def pods(self) -> list[dict[str, Any]]:
        return list(self.cluster.objects.list(PODS, f"ft-{TENANT}"))

    def settle(self) -> None:
        """Wait for the run's end, and let the daemon have looked at what is left as long as it takes."""
        if not self.run_over.wait(_PATIENCE_S):
            self.problems.append(f"the run was not over after {_PATIENCE_S:.0f} s")
        self.stop()
        launcher, deadline = self.orders.launcher(), time.monotonic() + _PATIENCE_S
        # What is on its way out has its time before two minutes are taken to have passed.
        while any(map(lives, self.pods())) and time.monotonic() < deadline - _PATIENCE_S / 2:
            time.sleep(0.2)
        time.sleep(1.5 * JobController.pods_after_s)
        quiet = 0
        while quiet < 2 and time.monotonic() < deadline:
            try:
                orphans = tick(self.orders, self.store, launcher, later_s=MARGIN_S + 1)
                quiet = 0 if orphans or any(lives(pod) for pod in self.pods()) else quiet + 1
            except UserError as error:
                self.problems.append(f"a last tick failed: {error}")
                return
            time.sleep(0.2)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            # One of the processes may be starting just now.
            while thread.is_alive():
                for process in (self._run, self._daemon):
                    _kill(process)
                thread.join(timeout=0.2)

    def _keep_run(self) -> None:
        """As run monitoring and run retries: a run whose worker died is tried again, one whose op failed is not."""
        for _ in range(_RETRIES):
            self._run = start_run_worker(self.orders)
            self._run.join()
            if self._run.exitcode == 0 or self._stopping.is_set():
                break
            if self._run.exitcode == 1:
                self.problems.append(f"the op failed:\n{self.orders.log.read_text()[-3000:]}")
                break
            self.restarts += 1
            self._stopping.wait(_RESTARTED_AFTER_S)
        else:
            self.problems.append(f"the run worker died {_RETRIES} times")
        self.run_over.set()

    def _keep_daemon(self) -> None:
        while not self._stopping.is_set():
            self._daemon = start_daemon(self.orders)
            self._daemon.join()
            if self._daemon.exitcode == 1:
                self.problems.append(f"the daemon failed:\n{self.orders.log.read_text()[-3000:]}")
                return
            self._stopping.wait(_RESTARTED_AFTER_S)


@contextmanager
def world(
    folder: Path,
    *,
    seed: int,
    store_url: str = "",
    ledger_url: str = "",
    environment: dict[str, str] | None = None,
    closed: bool = False,
    held: bool = True,
) -> Iterator[World]:
    """A world whose work has begun. ``environment`` is that of its processes and pods beside this process's own;
    ``closed`` nodes take no pods; ``held`` work does not end, at its first attempt, before a fault struck."""
    # The recipe says how many GPUs are billed.
    project = make_project(folder, store_url or None)
    register_recipe(project.store, project.recipe(_RECIPE, hardware={"gpus": 1}), actor="chaos")
    store = project.store
    seconds = random.Random(seed).uniform(0.5, 2.5)
    cluster = Cluster(nodes=2, gpus=1, kueue=False, image=environment)
    close_nodes(cluster, closed)
    cluster.objects.create(NAMESPACES, "", {"metadata": {"name": f"ft-{TENANT}"}})
    orders = Orders(
        store_url=store.url,
        kubeconfig=cluster.kubeconfig(),
        settings={"image": IMAGE, "service_account": "default", **_SMALL},
        ledger_url=ledger_url or f"sqlite:///{folder}/ledger.db",
        request=_request(seed, seconds, held),
        log=folder / "processes.log",
        environment=environment or {},
    )
    here = World(folder, cluster, store, orders, seconds=seconds)
    try:
        yield here
    finally:
        here.stop()
        cluster.close()


def _request(seed: int, seconds: float, held: bool) -> WorkRequest:
    return WorkRequest(
        asset="checkpoint",
        tenant=TENANT,
        code_version="1",
        inputs={},
        params={"text": f"seed {seed}"},
        runtime={"seconds": seconds, "held": int(held)},
        label=f"{TENANT}.things.v1|{_RECIPE}",
        resources=Resources(gpus=1),
    )


def lives(pod: dict[str, Any]) -> bool:
    return pod["status"].get("phase") not in ("Succeeded", "Failed")


def close_nodes(cluster: Cluster, closed: bool) -> None:
    """Cordon all nodes, or open them again."""
    for node in cluster.objects.list(NODES):
        cluster.objects.change(NODES, node, lambda draft: draft["spec"].update(unschedulable=closed))


def _kill(process: BaseProcess | None) -> bool:
    if process is None or process.exitcode is not None:
        return False
    with suppress(ValueError):
        process.kill()
    return True
