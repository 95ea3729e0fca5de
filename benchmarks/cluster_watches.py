"""What it costs one process to follow the Jobs of a full queue: with the watch that they share, and with one each."""

import gc
import multiprocessing
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from benchmarks.cluster_world import TENANT, cluster_with_queue, settings_file
from benchmarks.table import Figure
from ft_resources.kubernetes.api import Api, jobs
from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.manifests import to_k8s
from ft_resources.kubernetes.settings_file import read_settings
from ft_resources.kubernetes.watched import WatchedNamespace
from tests.cluster.cluster import Cluster
from tests.cluster.objects import JOBS
from tests.resources.kubernetes.specs import spec_of

QUEUED = 2_000
_NAMESPACE = f"ft-{TENANT}"
_SETTLE_S, _MEASURED_S, _PATIENCE_S, _CHANGES = 5.0, 60.0, 600.0, 20


@dataclass(frozen=True, kw_only=True)
class WatchCost:
    """Of a process that follows all Jobs.

    Args:
        watches: open connections.
        first_requests: until all were followed. After that a watch is asked for again every five minutes.
        mb: what its memory grew by.
        cpu_share: part of a core, in the minute after that.
        heard_s: from a Job's change until its follower had heard of it, the slowest of twenty.
    """

    watches: int
    first_requests: int
    mb: float
    cpu_share: float
    heard_s: float


def figures(folder: Path, *, queued: int = QUEUED) -> list[Figure]:
    ours, peer = watching_cost(folder, queued=queued)

    def beside(key: str, what: str, one: float, each: float, goal: str = "reported", met: bool | None = True) -> Figure:
        return Figure(key=key, what=what, ours=one, peer=each, peer_is="a watch each", goal=goal, met=met)

    whole, about = queued >= QUEUED, f"watches of a process that follows {queued:,} Jobs of a namespace"
    met = ours.watches == 1 if whole else None
    return [
        beside("watches_2000_jobs", about, ours.watches, peer.watches, "1", met),
        beside("watches_requests", "… requests to begin with", ours.first_requests, peer.first_requests),
        beside("watches_mb", "… memory that they take, MB", ours.mb, peer.mb),
        beside("watches_cpu_share", "… CPU, part of a core", ours.cpu_share, peer.cpu_share),
        beside("watches_heard_s", "… from a change to its follower, slowest of 20, s", ours.heard_s, peer.heard_s),
    ]


def watching_cost(folder: Path, *, queued: int = QUEUED) -> tuple[WatchCost, WatchCost]:
    """With one watch for all, and with one for each, of the same Jobs in the same cluster."""
    # A connection is a file, in the server as in its client.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with cluster_with_queue(gpus=0) as cluster:
        found = _queue(folder, cluster, queued)
        return _follow(cluster, found, shared=True), _follow(cluster, found, shared=False)


def _queue(folder: Path, cluster: Cluster, queued: int) -> list[str]:
    """Jobs as the launcher makes them, for which there is no GPU; their names."""
    settings, api, found = read_settings(str(settings_file(folder, cluster))), Api.connect(), list[str]()
    for number in range(queued):
        spec = spec_of(tenant=TENANT, attempt=1, gpus=1)
        address = spec.address.model_copy(update={"fingerprint": f"{number:08x}" * 8})
        plan = plan_pod(spec.model_copy(update={"address": address}), settings)
        api.create(jobs(_NAMESPACE), to_k8s(plan)[0])
        found.append(plan.name)
    return found


def _follow(cluster: Cluster, found: Sequence[str], *, shared: bool) -> WatchCost:
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    asked = len(cluster.server.requests)
    follower = processes.Process(target=_follower, args=(theirs, list(found), shared))
    follower.start()
    try:
        mb = _answer(ours)
        # Each Job is known by now; the watch behind its listing follows.
        time.sleep(_SETTLE_S)
        first = len(cluster.server.requests) - asked
        watches, process = len(cluster.server.watches), psutil.Process(follower.pid)
        cpu = sum(process.cpu_times()[:2])
        time.sleep(_MEASURED_S)
        spent = sum(process.cpu_times()[:2]) - cpu
        took = [_change(cluster, name, ours) for name in found[:: max(1, len(found) // _CHANGES)]]
    finally:
        follower.kill()
        follower.join()
    return WatchCost(
        watches=watches,
        first_requests=first,
        mb=mb,
        cpu_share=spent / _MEASURED_S,
        heard_s=max(took),
    )


def _change(cluster: Cluster, name: str, follower: Connection) -> float:
    """Seconds until the follower has heard of a change of the Job ``name``."""
    follower.send(name)
    _answer(follower)

    def annotate(draft: dict[str, Any]) -> None:
        draft["metadata"].setdefault("annotations", {})["changed"] = str(time.monotonic())

    began = time.monotonic()
    cluster.objects.change(JOBS, cluster.objects.get(JOBS, _NAMESPACE, name), annotate)
    return _answer(follower) - began


def _answer(follower: Connection) -> float:
    if not follower.poll(_PATIENCE_S):
        raise TimeoutError("waited in vain for the process that follows")
    return float(follower.recv())


def _follower(orders: Connection, found: Sequence[str], shared: bool) -> None:
    """Follow the Jobs; then tell, for each name that is sent, when there was news of it. One clock is the system's."""
    api = Api.connect()
    before = _own_mb()
    one = WatchedNamespace(api, _NAMESPACE)
    following = {name: (one if shared else WatchedNamespace(api, _NAMESPACE)).follow(name) for name in found}
    while not all(watch.job for watch in following.values()):
        time.sleep(0.1)
    gc.collect()
    orders.send(_own_mb() - before)
    while True:
        watch = following[orders.recv()]
        known = watch.job
        orders.send(0.0)
        while watch.job is known:
            watch.wait(0.01)
        orders.send(time.monotonic())


def _own_mb() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6
