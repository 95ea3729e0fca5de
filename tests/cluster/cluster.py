"""A whole cluster in this process, and the faults that only who owns the machines can make."""

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cluster import kueue_versions
from tests.cluster.containers import IMAGE, REFUSED_START, Container
from tests.cluster.control import Controller, ControlPlane, GarbageCollector, Key, NamespaceController
from tests.cluster.jobs import JobController
from tests.cluster.kueue import JobReconciler
from tests.cluster.kueue_checks import AdmissionChecks, PodsReady
from tests.cluster.kueue_scheduler import QueueScheduler
from tests.cluster.node import GPU, Kubelet, Scheduler
from tests.cluster.objects import NAMESPACES, NODES, PODS, ApiError, Change, Object, Objects, condition, has
from tests.cluster.server import Fault, Server
from tests.warm_workers import environment

ADMIN = "admin-token"
# Stands for the 300 s that every pod tolerates an unreachable node.
_EVICTION_S = 0.3


class NodeLifecycle(Controller):
    """Taints a node that is not heard of, deletes its pods when tolerations are over, and collects those of no node,
    be it that theirs is gone or that they were deleted before they had one."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self._since: dict[str, float] = {}

    def key(self, change: Change) -> Key | None:
        unplaced = change.kind is PODS and not change.object["spec"].get("nodeName")
        terminating = unplaced and "deletionTimestamp" in change.object["metadata"] and change.type != "DELETED"
        return ("nodes",) if change.kind is NODES or terminating else None

    def sync(self, key: Key) -> float | None:
        nodes = {node["metadata"]["name"]: node for node in self._objects.list(NODES)}
        lost = {name for name, node in nodes.items() if has(node, "Ready", "Unknown")}
        for name in lost:
            since = self._since.setdefault(name, time.monotonic())
            if time.monotonic() - since > _EVICTION_S:
                text = "Taint manager: deleting due to NoExecute taint"
                for pod in self._on(name):
                    if "deletionTimestamp" not in pod["metadata"]:
                        self._disrupt(pod, "DeletionByTaintManager", text)
                        self._objects.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
        for name in {pod["spec"].get("nodeName", "") for pod in self._objects.list(PODS)} - {"", *nodes}:
            for pod in self._on(name):
                if pod["status"]["phase"] not in ("Succeeded", "Failed"):
                    self._disrupt(pod, "DeletionByPodGC", "PodGC: node no longer exists", "Failed")
                self._collect(pod)
        for pod in self._on(""):
            if "deletionTimestamp" in pod["metadata"]:
                if pod["status"]["phase"] not in ("Succeeded", "Failed"):
                    self._objects.change(PODS, pod, lambda draft: draft["status"].update(phase="Failed"), "status")
                self._collect(pod)
        return 0.05 if lost else None

    def _on(self, node: str) -> list[Object]:
        return self._objects.list(PODS, "", lambda pod: pod["spec"].get("nodeName", "") == node)

    def _collect(self, pod: Object) -> None:
        meta = pod["metadata"]
        with suppress(ApiError):
            self._objects.delete(PODS, meta["namespace"], meta["name"], {"gracePeriodSeconds": 0})

    def _disrupt(self, pod: Object, reason: str, message: str, phase: str = "") -> None:
        def edit(draft: Object) -> None:
            condition(draft["status"], "DisruptionTarget", "True", reason, message)
            draft["status"]["phase"] = phase or draft["status"]["phase"]

        self._objects.change(PODS, pod, edit, "status")


class Cluster:
    """``nodes`` is how many, each with ``gpus`` GPUs; ``image`` adds to what containers find as their environment."""

    def __init__(
        self,
        nodes: int = 1,
        gpus: int = 8,
        kueue: bool = True,
        image: dict[str, str] | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ft-cluster-")
        self.folder = Path(self._folder.name)
        self.objects = Objects()
        self._image = IMAGE | environment() | (image or {})
        self.kubelets: dict[str, Kubelet] = {}
        self.pods_ready = PodsReady(self.objects)
        queues: list[Controller] = [JobReconciler(self.objects), QueueScheduler(self.objects)] if kueue else []
        queues += [AdmissionChecks(self.objects), self.pods_ready] if kueue else []
        workings = [JobController(self.objects), GarbageCollector(self.objects), NamespaceController(self.objects)]
        workings.append(Scheduler(self.objects))
        self.control = ControlPlane(self.objects, [*queues, *workings, NodeLifecycle(self.objects)])
        self.objects.create(NAMESPACES, "", {"metadata": {"name": "default"}})
        for at in range(nodes):
            self.add_node(f"n{at + 1}", gpus)
        self.server = Server(self.objects, self._logs)
        self.server.tokens = {ADMIN: None}
        self.server.kueue = kueue_versions.BOTH if kueue else ()
        self.port = self.server.server_address[1]

    def add_node(self, name: str, gpus: int = 8, labels: dict[str, str] | None = None, **spec: Any) -> None:
        room = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
        status: Object = {"capacity": room, "allocatable": room}
        condition(status, "Ready", "True", "KubeletReady", "kubelet is posting ready status")
        node = {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status}
        self.kubelets[name] = Kubelet(self.objects, name, self.folder / name, self._image)
        self.objects.create(NODES, "", node)

    def kubeconfig(self, token: str = ADMIN, namespace: str = "default") -> Path:
        """A file as kubectl reads it; JSON is YAML."""
        path = self.folder / f"kubeconfig-{token}"
        context = {"cluster": "test", "user": "test", "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": context}],
        }
        path.write_text(json.dumps(config))
        return path

    def close(self) -> None:
        """Stop everything. Raises AssertionError where a controller met an error of its own."""
        self.server.stop()
        self.control.stop()
        for kubelet in self.kubelets.values():
            kubelet.end()
        self._folder.cleanup()
        assert not self.control.errors, "\n".join(self.control.errors)

    def answer(self, code: int, where: str = "", times: int = 1, **headers: str) -> None:
        """Fail the next ``times`` requests that match ``where``, a pattern on "METHOD path?query"."""
        names = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        self.server.faults.append(Fault(code, where, times, names))

    def restart_api_server(self, down_s: float = 0.2) -> None:
        """Cut every connection, refuse new ones for a while, come back with the same objects and no history."""
        old = self.server
        old.stop()
        time.sleep(down_s)
        self.objects.compact()
        self.server = Server(self.objects, self._logs, self.port)
        self.server.tokens, self.server.faults, self.server.requests = old.tokens, old.faults, old.requests
        self.server.kueue = old.kueue

    def lose_node(self, name: str, removed_after_s: float | None = None, processes_die: bool = True) -> None:
        """A node is heard of no more. Its pods go on reading Running until it is removed, as in the real one."""
        self.kubelets[name].lose(processes_die)

        def unknown(node: Object) -> None:
            text = "Kubelet stopped posting node status."
            condition(node["status"], "Ready", "Unknown", "NodeStatusUnknown", text)
            taint = {"key": "node.kubernetes.io/unreachable"}
            node["spec"]["taints"] = [taint | {"effect": effect} for effect in ("NoSchedule", "NoExecute")]

        node = self.objects.get(NODES, "", name)
        self.objects.change(NODES, node, unknown, "status")
        self.objects.change(NODES, self.objects.get(NODES, "", name), unknown)
        for pod in self.objects.list(PODS, "", lambda pod: pod["spec"].get("nodeName") == name):
            self.objects.change(PODS, pod, lambda draft: condition(draft["status"], "Ready", "False"), "status")
        if removed_after_s is not None:
            threading.Timer(removed_after_s, self.remove_node, [name]).start()

    def remove_node(self, name: str) -> None:
        """What a cloud does with a machine that is gone."""
        self.objects.delete(NODES, "", name)

    def preempt_spot(self, name: str, grace_s: float = 5) -> None:
        """A spot node is taken back: its agent ends the pods, tells it, and the node disappears."""
        runners = list(self.kubelets[name].pods.values())
        cordon = self.objects.get(NODES, "", name)
        self.objects.change(NODES, cordon, lambda draft: draft["spec"].update(unschedulable=True))
        for runner in runners:
            runner.shut_down(grace_s)
        for runner in runners:
            runner.join()
        self.remove_node(name)

    def kill_processes(self, namespace: str, pod: str, out_of_memory: bool = False) -> None:
        """SIGKILL to all processes of a pod; ``out_of_memory`` is what the kernel does when the node runs out."""
        for container in self._containers(namespace, pod):
            container.kill(out_of_memory)

    def refuse_starts(self, said: str) -> None:
        """No node can start a container any more, as where a driver is missing; its runtime says so."""
        for kubelet in self.kubelets.values():
            kubelet.image[REFUSED_START] = said

    @contextmanager
    def held(self, namespace: str, pod: str) -> Iterator[None]:
        """The processes of a pod stand still until the block ends, as on a node that is overloaded."""
        (container,) = self._containers(namespace, pod)
        container.hold(True)
        try:
            yield
        finally:
            container.hold(False)

    def _containers(self, namespace: str, pod: str) -> list[Container]:
        found = self.objects.get(PODS, namespace, pod)
        return self.kubelets[found["spec"]["nodeName"]].pods[found["metadata"]["uid"]].containers

    def _logs(self, pod: Object, name: str | None, follow: bool, tail: int | None) -> Iterator[bytes]:
        return self.kubelets[pod["spec"]["nodeName"]].logs(pod, name, follow, tail)
