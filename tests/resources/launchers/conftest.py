"""Places where workers run: this machine, and a cluster. What the contract says holds on both."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any

import psutil
import pytest

from ft_resources.attempts import Attempt
from ft_resources.execution import Execution
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import Api
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.launchers.base import Launcher
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.launchers.local import LocalLauncher
from ft_resources.store import Store
from ft_resources.work import Resources, WorkRequest
from tests.cluster.fixtures import Access, cluster, until
from tests.cluster.jobs import JobController
from tests.resources.kubernetes.specs import IMAGE
from tests.resources.small_work import Watcher, begun, claimed, in_thread, request_for

__all__ = ["cluster"]
FAKE = "tests.fake_worker"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster's Job controller collects news of pods for a tenth of the second that a real one takes."""
    monkeypatch.setattr(JobController, "pods_after_s", 0.1)


@dataclass
class Place:
    """Where workers run. ``launcher`` makes a launcher as another process would have it; ``tenant`` may work here."""

    store: Store
    tenant: str
    launcher: Callable[[], Launcher]
    kill: Callable[[Attempt], None]
    lives: Callable[[Attempt], bool]

    def execution(self, **changes: Any) -> Execution:
        """Impatient: it looks often, and delays no attempt."""
        impatient = {"poll_s": 0.05, "sleep": lambda seconds: time.sleep(min(seconds, 0.05))}
        return Execution(**{"store": self.store, "launcher": self.launcher(), **impatient, **changes})

    def request(self, asset: str, **given: Any) -> WorkRequest:
        return request_for(asset, tenant=self.tenant, **given)

    def begun(self, request: WorkRequest, phase: str = "writing") -> Attempt:
        return begun(self.store, request, phase)


@dataclass
class OnCluster:
    """The launcher's view of a test cluster, and a hand on it."""

    access: Access
    store: Store

    @property
    def tenant(self) -> str:
        return self.access.namespace.removeprefix("ft-")

    def settings(self, **changes: Any) -> KubernetesSettings:
        small = {"cpus": 0.1, "memory_gib": 2.0, "cpus_per_gpu": 0.1, "memory_gib_per_gpu": 2.0, "scratch_gib": 1.0}
        image = os.environ.get("FT_CLUSTER_WORKER_IMAGE", IMAGE)
        # Its folders are the store. Nobody runs as root in a pod.
        who = {"service_account": "default", "run_as": os.getuid() or 10001}
        return KubernetesSettings.model_validate({"image": image, **who, **small, **changes})

    def api(self, **options: Any) -> Api:
        return Api(client=self.access.client(retries=0), **options)

    def launcher(
        self,
        *,
        api: Api | None = None,
        look_every_s: float = 0.5,
        clock: Callable[[], float] = time.time,
        **changes: Any,
    ) -> KubernetesLauncher:
        settings = self.settings(**changes)
        return KubernetesLauncher(settings, api or self.api(), module=FAKE, look_every_s=look_every_s, clock=clock)

    def place(self, **changes: Any) -> Place:
        return Place(
            store=self.store,
            tenant=self.tenant,
            launcher=lambda: self.launcher(**changes),
            kill=self.kill,
            lives=lambda attempt: any(pod["status"]["phase"] == "Running" for pod in self.pods(attempt)),
        )

    def work(self, text: str = "x", *, held: int = 0, nodes: int = 1, **resources: Any) -> WorkRequest:
        """Work whose attempts up to number ``held`` go on until they are stopped or let go."""
        runtime = {"held": held, **({"nodes": nodes} if nodes > 1 else {})}
        request = request_for("write", tenant=self.tenant, text=text, runtime=runtime)
        return replace(request, resources=Resources(**resources))

    def start(self, request: WorkRequest, **changes: Any) -> tuple[Thread, list[Any], Attempt, Watcher]:
        """The work under way in a thread, its result, its first attempt once its worker reports, and its watcher."""
        place, launcher, watcher = self.place(**changes), self.launcher(**changes), Watcher()
        execution = place.execution(launcher=launcher)
        thread, got = in_thread(lambda: execution.run(request, actor="a", observer=watcher))
        attempt, followed = place.begun(request), launcher._followed
        # A pod begins here within less time than the launcher's watch: what ends now has to have been seen.
        until(lambda: followed[attempt.path].watch.last if attempt.path in followed else None)
        return thread, got, attempt, watcher

    def launched(self, request: WorkRequest, **changes: Any) -> tuple[KubernetesLauncher, Attempt]:
        """An attempt whose orchestrator is gone as soon as its Job is there."""
        launcher = self.launcher(**changes)
        spec, attempt = claimed(self.store, request)
        launcher.launch(spec, attempt)
        return launcher, attempt

    def pods(self, attempt: Attempt) -> list[dict]:
        name = names.job_name(attempt.address, attempt.number)
        path = f"/api/v1/namespaces/{self.access.namespace}/pods"
        return list(self.api().list(path, {"labelSelector": f"{names.JOB}={name}"})["items"])

    def job(self, attempt: Attempt) -> dict | None:
        name = names.job_name(attempt.address, attempt.number)
        return self.api().get(f"/apis/batch/v1/namespaces/{self.access.namespace}/jobs/{name}")

    def kill(self, attempt: Attempt) -> None:
        """SIGKILL to the worker's processes, as from nowhere."""
        for pod in self.pods(attempt):
            kubelet = self.access.machines.kubelets[pod["spec"]["nodeName"]]
            for container in kubelet.pods[pod["metadata"]["uid"]].containers:
                container.kill()


@pytest.fixture
def on_cluster(warm: None, warm_server: str, cluster: Access, store: Store) -> OnCluster:
    # Here and not in a test, which would look often meanwhile.
    until(lambda: os.path.exists(warm_server))
    return OnCluster(cluster, store)


@pytest.fixture(params=["local", "kubernetes"])
def place(request: pytest.FixtureRequest, warm: None, store: Store) -> Iterator[Place]:
    if request.param == "kubernetes":
        yield request.getfixturevalue("on_cluster").place()
        return
    started: list[int] = []

    def pid(attempt: Attempt) -> int:
        started.append(attempt.launch()["pid"])
        return started[-1]

    def lives(attempt: Attempt) -> bool:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(pid(attempt)).status() != psutil.STATUS_ZOMBIE
        return False

    yield Place(
        store=store,
        tenant="acme",
        launcher=lambda: LocalLauncher(module=FAKE),
        kill=lambda attempt: os.kill(pid(attempt), signal.SIGKILL),
        lives=lives,
    )
    for each in started:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def gone(place: Place, attempt: Attempt) -> None:
    """Wait until the worker of ``attempt`` is gone."""
    until(lambda: not place.lives(attempt))
