"""Fine-tunes of the demo's base beside each other: ``ft run`` as users start it, all workers pods of a test cluster.

The queue has no room until the trainings of all of them wait in it, so that they are admitted together. What each of
them trains is small: the figure says that nothing gets into another's way, not how good or fast a training is.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster_finetunes_asked import TENANT, Asked
from benchmarks.cluster_finetunes_verdict import problems_of, problems_of_all
from benchmarks.cluster_world import cluster_with_queue, settings_file, sleeper
from ft_assets.control import identity
from ft_resources.artifacts import Artifacts
from ft_resources.execution import Execution
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import Api, jobs
from ft_resources.kubernetes.settings_file import read_settings
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.store import Store
from tests.cluster.cluster import Cluster
from tests.cluster.objects import JOBS, PODS, Change, has
from tests.e2e.project import Project

FINE_TUNES = 10
_PATIENCE_S, _ENDING_S = 1800.0, 60.0
_FT = (sys.executable, "-c", "from ft_assets.cli.main import app; app()", "run")
_HOLDER = "holds-the-quota"


@dataclass(frozen=True, kw_only=True)
class FineTunes:
    """``done`` left all that they should, once; ``at_once`` trainings ran at the same time; what else was wrong."""

    done: int
    at_once: int
    seconds: float
    problems: list[str]


def fine_tunes(project: Project, asked: Asked) -> FineTunes:
    """Run all that is asked at once, and look at what is left in the store and on the cluster."""
    store, count = project.store, len(asked.recipes)
    with cluster_with_queue(gpus=0, cpus=float(count), tenants=(TENANT,)) as cluster:
        settings = settings_file(project.folder, cluster, environment={"OMP_NUM_THREADS": "1"})
        _prepare(store, settings, asked)
        in_flight, api, namespace = _InFlight(cluster), Api.connect(), f"ft-{TENANT}"
        api.create(jobs(namespace), sleeper(_HOLDER, cpus=count))
        began = time.monotonic()
        with _started(project, settings, asked) as runs:
            # A run that is over already has failed, and will be told of; the others need not wait for it.
            _wait(lambda: _trainings(cluster) == count or any(run.over() for run in runs), _PATIENCE_S)
            api.delete(jobs(namespace, _HOLDER), propagationPolicy="Background")
            problems = [problem for run in runs for problem in run.problems(began + _PATIENCE_S)]
        seconds = time.monotonic() - began
        _wait(lambda: not _goes_on(cluster), _ENDING_S)
        problems += [f"{name} goes on" for name in _goes_on(cluster)]
    each = [problems_of(store, asked.dataset, recipe) for recipe in asked.recipes]
    problems += [problem for found in each for problem in found] + problems_of_all(store, asked)
    done = sum(not found for found in each)
    return FineTunes(done=done, at_once=in_flight.most, seconds=seconds, problems=problems)


def _prepare(store: Store, settings: Path, asked: Asked) -> None:
    """Make what all of them stand on, in pods too, while the queue has room."""
    artifacts, recipe = Artifacts(store), asked.recipes[0]
    execution = Execution(store=store, launcher=KubernetesLauncher(read_settings(str(settings)), Api.connect()))
    execution.run(identity.dataset_request(artifacts, asked.dataset), actor="benchmark")
    execution.run(identity.base_model_request(artifacts, recipe), actor="benchmark")
    execution.run(identity.baseline_report_request(artifacts, recipe), actor="benchmark")
    execution.run(identity.token_pack_request(artifacts, asked.dataset, recipe), actor="benchmark")


class _InFlight:
    """Counts the trainings whose worker runs; ``most`` is how many there were at one time."""

    def __init__(self, cluster: Cluster) -> None:
        self.most = 0
        self._running: set[str] = set()
        cluster.objects.listeners.append(self._listen)

    def _listen(self, change: Change) -> None:
        meta = change.object["metadata"]
        if change.kind is not PODS or meta.get("labels", {}).get(names.ASSET) != "checkpoint":
            return
        runs = change.type != "DELETED" and change.object["status"].get("phase") == "Running"
        (self._running.add if runs else self._running.discard)(meta["uid"])
        self.most = max(self.most, len(self._running))


@dataclass(frozen=True, kw_only=True)
class _Run:
    """An ``ft run``, and where it writes."""

    recipe: str
    process: subprocess.Popen[bytes]
    log: Path

    def over(self) -> bool:
        return self.process.poll() is not None

    def problems(self, deadline: float) -> Iterator[str]:
        """Wait for its end until ``deadline`` of the monotonic clock, and say how it ended where not well."""
        try:
            code = self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            yield f"ft run of {self.recipe} was not over after {_PATIENCE_S:.0f} s"
            return
        if code:
            yield f"ft run of {self.recipe} ended with {code}:\n{self.log.read_text(errors='replace')[-2000:]}"


@contextmanager
def _started(project: Project, settings: Path, asked: Asked) -> Iterator[list[_Run]]:
    """All of them at once; none goes on after the block."""
    environment = {**project.environment, "FT_LAUNCHER": "kubernetes", "FT_KUBERNETES": str(settings)}
    runs: list[_Run] = []
    try:
        for recipe in asked.recipes:
            log, command = project.folder / f"{recipe}.log", [*_FT, asked.dataset, recipe]
            with log.open("wb") as out:
                process = subprocess.Popen(command, cwd=project.folder, env=environment, stdout=out, stderr=out)
            runs.append(_Run(recipe=recipe, process=process, log=log))
        yield runs
    finally:
        for run in runs:
            run.process.kill()
            run.process.wait()


def _trainings(cluster: Cluster) -> int:
    """Jobs that train, admitted or not."""
    return len(cluster.objects.list(JOBS, "", lambda job: job["metadata"]["labels"].get(names.ASSET) == "checkpoint"))


def _goes_on(cluster: Cluster) -> list[str]:
    """Pods that have not ended, and Jobs that may start some."""
    pods = cluster.objects.list(PODS, "", lambda pod: pod["status"].get("phase") not in ("Succeeded", "Failed"))
    open_jobs = cluster.objects.list(JOBS, "", lambda job: not any(has(job, end) for end in ("Complete", "Failed")))
    return [f"{one['kind']} {one['metadata']['name']}" for one in (*pods, *open_jobs)]


def _wait(look: Callable[[], bool], patience_s: float) -> None:
    """Until it is so, at most ``patience_s`` seconds."""
    end = time.monotonic() + patience_s
    while not look() and time.monotonic() < end:
        time.sleep(0.2)
