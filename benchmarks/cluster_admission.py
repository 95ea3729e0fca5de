"""From an attempt's admission to its pod: launches through Kueue's queue on a test cluster.

Workers give way to the control plane, as on a cluster they run on other machines than it.
"""

import threading
import time
from pathlib import Path

from benchmarks.cluster_world import TENANT, cluster_with_queue, settings_file
from ft_resources.attempts import Attempt
from ft_resources.kubernetes.api import Api
from ft_resources.kubernetes.settings_file import read_settings
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.work import Resources, WorkSpec
from tests.cluster.containers import NICE
from tests.cluster.objects import PODS, Change
from tests.resources.kubernetes.specs import spec_of

_LAUNCHES = 20
_PATIENCE_S = 30.0


def slowest_admission_s(folder: Path, launches: int = _LAUNCHES) -> float:
    """Seconds from the call of ``launch`` to the creation of the pod, the longest of ``launches``."""
    store = open_store(f"file://{folder}/store", create=True)
    with cluster_with_queue(gpus=launches) as cluster:
        for kubelet in cluster.kubelets.values():
            kubelet.image[NICE] = "19"
        settings = read_settings(str(settings_file(folder, cluster)))
        launcher = KubernetesLauncher(settings, Api.connect(), module="tests.fake_worker")
        created, news = dict[str, float](), threading.Condition()

        def listen(change: Change) -> None:
            if change.kind is PODS and change.type == "ADDED":
                with news:
                    created[change.object["metadata"]["labels"]["job-name"]] = time.monotonic()
                    news.notify_all()

        cluster.objects.listeners.append(listen)
        taken = []
        for number in range(launches):
            spec = _spec(store, number)
            attempt = Attempt(store, spec.address, 1)
            attempt.claim("benchmark")
            attempt.write_spec(spec)
            began = time.monotonic()
            launcher.launch(spec, attempt)
            name = (attempt.launch() or {})["job"]
            with news:
                while name not in created:
                    if not news.wait(_PATIENCE_S):
                        raise TimeoutError(f"{name} has no pod after {_PATIENCE_S:.0f} s")
            taken.append(created[name] - began)
    return max(taken)


def _spec(store: Store, number: int) -> WorkSpec:
    spec = spec_of(tenant=TENANT, asset="write", inputs=0, store_url=store.url, runtime={"seconds": 0.5})
    address = spec.address.model_copy(update={"fingerprint": f"{number:08x}" * 8})
    return spec.model_copy(update={"address": address, "params": {"text": str(number)}, "resources": Resources(gpus=1)})
