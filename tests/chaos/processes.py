"""The platform's processes, as children that can be killed: a run worker, and a daemon.

Both are forked from a process that has imported the libraries, as importing them takes longer than a run.
"""

import multiprocessing
import os
import sys
import time
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ft_assets.api.orphans import settle, stand
from ft_assets.control.metering.ledger import Ledger
from ft_assets.control.metering.sync import sync
from ft_assets.settings.tenants import TenantsFile
from ft_resources.errors import UserError
from ft_resources.execution import Execution
from ft_resources.kubernetes.api import Api
from ft_resources.kubernetes.orphans import plan_orphans
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest

TENANTS = TenantsFile()
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.chaos.processes", "kubernetes.client", "psycopg2", "alembic.command"])


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What a process of the platform is configured with."""

    store_url: str
    kubeconfig: Path
    settings: dict[str, Any]
    ledger_url: str
    request: WorkRequest
    log: Path
    environment: dict[str, str] = field(default_factory=dict)

    def launcher(self) -> KubernetesLauncher:
        from kubernetes import config

        client = config.new_client_from_config(config_file=str(self.kubeconfig))
        settings = KubernetesSettings.model_validate(self.settings)
        return KubernetesLauncher(settings, Api(client=client), module="tests.chaos.worker", look_every_s=0.5)


def start_run_worker(orders: Orders) -> BaseProcess:
    return _start(_run_worker, orders)


def start_daemon(orders: Orders) -> BaseProcess:
    return _start(_daemon, orders)


def tick(orders: Orders, store: Store, launcher: KubernetesLauncher, *, later_s: float = 0.0) -> int:
    """What the orphans' and the metering sensor do in one tick, ``later_s`` seconds from now; how many orphans."""
    wanted = {orders.request.label}
    standings = [stand(store, job, wanted) for job in launcher.jobs(store.url)]
    orphans = plan_orphans(standings, time.time() + later_s)
    for orphan in orphans:
        settle(store, launcher, launcher, orphan)
    ledger = Ledger(orders.ledger_url)
    try:
        sync(store, ledger, TENANTS, orders.request.tenant)
    finally:
        ledger.close()
    return len(orphans)


def _start(target: Any, orders: Orders) -> BaseProcess:
    process = _FORKS.Process(target=_in_child, args=(target, orders), daemon=True)
    process.start()
    return process


def _in_child(target: Any, orders: Orders) -> None:
    os.environ.update(orders.environment)
    sys.stdout = sys.stderr = orders.log.open("a", buffering=1)
    target(orders)


def _run_worker(orders: Orders) -> None:
    """The op of a run: waits for its artifact. Ends with 0 once it is there, with 1 where the op failed."""
    execution = Execution(store=open_store(orders.store_url), launcher=orders.launcher(), poll_s=0.1)
    execution.run(orders.request, actor="chaos")


def _daemon(orders: Orders) -> None:
    """Ticks until it is killed. What a sensor reports as a user's error is looked at again by the next tick."""
    store, launcher = open_store(orders.store_url), orders.launcher()
    while True:
        try:
            tick(orders, store, launcher)
        except UserError as error:
            print(f"tick: {error}")
        time.sleep(0.2)
