"""What a waiting run costs: a real Dagster run worker whose Job is queued, in a cluster that is full of Jobs."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import psutil

from benchmarks.cluster_world import TENANT, cluster_with_queue, settings_file, sleeper
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.kubernetes.api import Api, jobs
from tests.cluster.cluster import Cluster
from tests.cluster.objects import JOBS, PODS, Object
from tests.dagster_private import ExecuteRunArgs, ReconstructableRepository
from tests.e2e.project import Project, make_project

QUEUED, RUNNING = 500, 50
_PATIENCE_S, _SETTLE_S, _MEASURED_S = 300.0, 15.0, 60.0


@dataclass(frozen=True, kw_only=True)
class WaitingCost:
    """Of one process, over a minute."""

    rss_mb: float
    cpu_share: float
    requests_per_10s: float


def waiting_cost(folder: Path, *, queued: int = QUEUED, running: int = RUNNING) -> WaitingCost:
    """Start a run that curates a dataset, whose Job finds the quota in use, and look at its process.

    Args:
        queued: other Jobs that wait for the quota.
        running: other Jobs that have it.
    """
    project = make_project(folder / "project")
    policy = DatasetPolicy()
    add_dataset_version(
        project.store, project.dataset(), tenant=TENANT, name="things", policy=policy, actor="benchmark"
    )
    with cluster_with_queue(gpus=1, cpus=float(running)) as cluster:
        _fill(cluster, queued, running)
        environment = {"FT_LAUNCHER": "kubernetes", "FT_KUBERNETES": str(settings_file(folder, cluster))}
        with _run_worker(project, environment) as process:
            _until(lambda: len(cluster.objects.list(JOBS)) > queued + running, "the run's Job", process)
            time.sleep(_SETTLE_S)
            cpu, asked = sum(process.cpu_times()[:2]), len(cluster.server.requests)
            time.sleep(_MEASURED_S)
            if len(cluster.server.watches) != 1:
                raise RuntimeError(f"the run has {len(cluster.server.watches)} watches")
            lines = [line for _, line in list(cluster.server.requests)[asked:] if "watch=true" not in line]
            return WaitingCost(
                rss_mb=process.memory_info().rss / 1e6,
                cpu_share=(sum(process.cpu_times()[:2]) - cpu) / _MEASURED_S,
                requests_per_10s=len(lines) * 10 / _MEASURED_S,
            )


def _fill(cluster: Cluster, queued: int, running: int) -> None:
    """Jobs that take the whole quota, and the others that wait for it."""
    api = Api.connect()
    for number in range(running + queued):
        if number == running:
            _until(lambda: len(_running(cluster)) == running, f"{running} running pods")
        api.create(jobs(f"ft-{TENANT}"), sleeper(f"other-{number:03d}"))


def _running(cluster: Cluster) -> list[Object]:
    return list(cluster.objects.list(PODS, "", lambda pod: pod["status"].get("phase") == "Running"))


@contextmanager
def _run_worker(project: Project, environment: dict[str, str]) -> Iterator[psutil.Process]:
    """The process that executes a run, started as Dagster's Kubernetes run launcher does in a pod of its own."""
    os.environ.update({**project.environment, **environment})
    key = f"{TENANT}.things.v1"
    with project.instance() as instance:
        instance.add_dynamic_partitions("dataset", [key])
        job = ReconstructableRepository.for_module("ft_assets.definitions", "defs").get_reconstructable_job(
            "prepare_dataset"
        )
        run = instance.create_run_for_job(
            job.get_definition(),
            tags={"dagster/partition": key},
            job_code_origin=job.get_python_origin(),
            status=dg.DagsterRunStatus.STARTING,
        )
        arguments = ExecuteRunArgs(job.get_python_origin(), run.run_id, instance.get_ref())
        with (project.folder / "run-worker.log").open("wb") as log:
            worker = subprocess.Popen(arguments.get_command_args(), stdout=log, stderr=log, cwd=project.folder)
        try:
            yield psutil.Process(worker.pid)
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.wait()


def _until(look: Callable[[], bool], what: str, process: psutil.Process | None = None) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not look():
        if time.monotonic() > end or (process is not None and process.status() == psutil.STATUS_ZOMBIE):
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.2)
