"""Nodes: the scheduler that places pods, and an agent a node that runs them and tells how they end."""

import copy
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.cluster.containers import Container, address, make_volumes, quantity
from tests.cluster.control import Controller, Key
from tests.cluster.objects import NODES, PODS, SERVICES, ApiError, Change, Object, Objects, condition, now, record

GPU = "nvidia.com/gpu"
# A Job is made before its Service.
_SERVICE_WITHIN_S = 60.0


class Scheduler(Controller):
    """Puts a pod on the first node that has room, its labels and no taint that the pod does not tolerate."""

    def key(self, change: Change) -> Key | None:
        pod = change.object
        waits = change.kind is PODS and not pod["spec"].get("nodeName") and change.type != "DELETED"
        return (pod["metadata"]["namespace"], pod["metadata"]["name"]) if waits else None

    def sync(self, key: Key) -> float | None:
        pod = self._objects.find(PODS, *key)
        if pod is None or pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return None
        reasons: dict[str, int] = {}
        nodes = self._objects.list(NODES)
        for node in nodes:
            if why := self._misfit(pod, node):
                reasons[why] = reasons.get(why, 0) + 1
                continue
            self._objects.change(PODS, pod, partial(_bind, node=node["metadata"]["name"]), "all")
            text = f"Successfully assigned {'/'.join(key)} to {node['metadata']['name']}"
            record(self._objects, pod, "Scheduled", text, "default-scheduler")
            return None
        why = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
        rest = f"preemption: 0/{len(nodes)} nodes are available: {len(nodes)} Preemption is not helpful for scheduling."
        text = f"0/{len(nodes)} nodes are available: {why}. no new claims to deallocate, {rest}"
        if text not in [entry.get("message") for entry in pod["status"].get("conditions", [])]:
            record(self._objects, pod, "FailedScheduling", text, "default-scheduler", "Warning")
            says = ("PodScheduled", "False", "Unschedulable", text)
            self._objects.change(PODS, pod, lambda draft: condition(draft["status"], *says), "status")
        return 0.2

    def _misfit(self, pod: Object, node: Object) -> str:
        spec, labels = pod["spec"], node["metadata"].get("labels", {})
        if node["spec"].get("unschedulable"):
            return "node(s) were unschedulable"
        for taint in node["spec"].get("taints", []):
            if not any(tolerates(one, taint) for one in spec.get("tolerations", [])):
                return "node(s) had untolerated taint(s)"
        selected = all(labels.get(name) == value for name, value in spec.get("nodeSelector", {}).items())
        if not selected or node["metadata"]["name"] in avoided(spec):
            return "node(s) didn't match Pod's node affinity/selector"
        here = self._objects.list(PODS, "", lambda one: one["spec"].get("nodeName") == node["metadata"]["name"])
        taken = [requests(one) for one in here if one["status"]["phase"] in ("Pending", "Running")]
        for name, wanted in requests(pod).items():
            room = quantity(node["status"]["allocatable"].get(name, 0)) - sum(one.get(name, 0) for one in taken)
            if wanted > room:
                return f"Insufficient {name}"
        return ""


def requests(pod: Object) -> dict[str, float]:
    """What the containers of a pod ask for; a limit alone is a request too."""
    total: dict[str, float] = {}
    for container in pod["spec"]["containers"]:
        asked = container.get("resources", {})
        for name, amount in (asked.get("limits", {}) | asked.get("requests", {})).items():
            total[name] = total.get(name, 0) + quantity(amount)
    return total


def avoided(spec: Object) -> set[str]:
    """Names of the nodes that a pod's affinity excludes; no other affinity is known here."""
    required = (
        spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    fields = [field for term in required.get("nodeSelectorTerms", []) for field in term["matchFields"]]
    assert all((field["key"], field["operator"]) == ("metadata.name", "NotIn") for field in fields)
    return {name for field in fields for name in field["values"]}


def tolerates(toleration: Object, taint: Object) -> bool:
    same = toleration.get("key") in (None, taint["key"]) and toleration.get("effect") in (None, "", taint["effect"])
    return same and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))


def _bind(pod: Object, node: str) -> None:
    pod["spec"]["nodeName"] = node
    condition(pod["status"], "PodScheduled", "True")


class Kubelet:
    """The agent of one node. ``lose`` cuts it off: nothing is reported any more, whatever its processes do."""

    def __init__(self, objects: Objects, name: str, folder: Path, image: dict[str, str]) -> None:
        self.objects, self.name, self.folder, self.image = objects, name, folder, image
        self.lost = False
        self.pods: dict[str, PodRunner] = {}
        objects.listeners.append(self._listen)

    def _listen(self, change: Change) -> None:
        pod, uid = change.object, change.object["metadata"]["uid"]
        if change.kind is not PODS or pod["spec"].get("nodeName") != self.name or self.lost:
            return
        if change.type == "DELETED":
            if uid in self.pods:
                self.pods[uid].forget()
        elif uid not in self.pods and pod["status"]["phase"] == "Pending":
            self.pods[uid] = PodRunner(self, pod)
            self.pods[uid].start()
        elif uid in self.pods and "deletionTimestamp" in pod["metadata"]:
            self.pods[uid].stop(pod["metadata"]["deletionGracePeriodSeconds"])

    def lose(self, processes_die: bool = True) -> None:
        self.lost = True
        for runner in list(self.pods.values()):
            runner.lost = True
            for container in runner.all if processes_die else []:
                container.kill()

    def end(self) -> None:
        """Kill everything and wait for it; for the end of a test."""
        self.lost = True
        for runner in list(self.pods.values()):
            runner.forget()
        for runner in list(self.pods.values()):
            runner.join()

    def logs(self, pod: Object, name: str | None, follow: bool, tail: int | None) -> Iterator[bytes]:
        runner = self.pods.get(pod["metadata"]["uid"])
        if self.lost or runner is None:
            raise ApiError(500, "InternalError", f'Get "https://{self.name}:10250/containerLogs": connection refused')
        container = next((one for one in runner.all if name == one.name), None) if name else runner.all[-1]
        where = f'container "{name}" in pod "{pod["metadata"]["name"]}"'
        if container is None:
            raise ApiError(400, "BadRequest", f"{where} is not valid")
        if not container.log.exists():
            raise ApiError(400, "BadRequest", f"{where} is waiting to start: {runner.waiting}")
        return container.read(follow, tail)


class PodRunner(threading.Thread):
    """One pod from binding to its end; its folder goes when the pod is gone."""

    def __init__(self, kubelet: Kubelet, pod: Object) -> None:
        super().__init__(name=pod["metadata"]["name"], daemon=True)
        self._kubelet, self._pod, self._objects = kubelet, pod, kubelet.objects
        self._folder = kubelet.folder / "pods" / pod["metadata"]["uid"]
        self._folder.mkdir(parents=True)
        self.waiting = "PodInitializing" if pod["spec"].get("initContainers") else "ContainerCreating"
        self._message = ""
        self._grace: float | None = None
        self._gone = threading.Event()
        self._disruption: tuple[str, str] | None = None
        self._ended = self.lost = False
        specs = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
        self.all = [Container(self._objects, pod, spec, self._folder, kubelet.image) for spec in specs]
        self.init, self.containers = self.all[:-1], self.all[-1:]

    def stop(self, grace_s: float) -> None:
        self._grace = grace_s if self._grace is None else min(self._grace, grace_s)
        for container in self.all:
            container.ask_to_stop(self._grace)

    def shut_down(self, grace_s: float) -> None:
        """The node goes down and says so, as a spot node does."""
        self._disruption = ("Terminated", "Pod was terminated in response to imminent node shutdown.")
        self.stop(grace_s)

    def forget(self) -> None:
        """The pod is gone from the API: kill what is left, remove its files."""
        self._gone.set()
        for container in self.all:
            container.kill()
        if self._ended:
            shutil.rmtree(self._folder, ignore_errors=True)

    def run(self) -> None:
        try:
            self._report()
            make_volumes(self._pod, self._folder, self._kubelet.folder)
            self._meet()
            if self._pull():
                self._run_all()
        except ApiError as error:
            self.waiting, self._message = "CreateContainerConfigError", str(error)
            self._report()
            self._until(lambda: False)
        self._finish()
        self._ended = True
        if self._gone.is_set():
            shutil.rmtree(self._folder, ignore_errors=True)

    def _meet(self) -> None:
        """Names in a Service resolve from when it is there, which may be after its pods: here before they start."""
        spec, end = self._pod["spec"], self._objects.clock() + _SERVICE_WITHIN_S
        place = (self._pod["metadata"]["namespace"], spec.get("subdomain", ""))
        if place[1] and f".{place[1]}" in str(spec["containers"]):
            self._until(lambda: self._objects.find(SERVICES, *place) or self._objects.clock() > end)

    def _pull(self) -> bool:
        bad = [one.spec["image"] for one in self.all if one.spec["image"].partition("/")[0].endswith(".invalid")]
        while bad and not self._over():
            for self.waiting, self._message in (
                ("ErrImagePull", f'failed to pull and unpack image "{bad[0]}": no such host'),
                ("ImagePullBackOff", f'Back-off pulling image "{bad[0]}"'),
            ):
                self._report()
                text = f'Failed to pull image "{bad[0]}": no such host'
                record(self._objects, self._pod, "Failed", text, "kubelet", "Warning")
                end = time.monotonic() + 0.2
                self._until(lambda: time.monotonic() > end)  # noqa: B023
        return not bad and not self._over()

    def _run_all(self) -> None:
        """Run one container after the other, the last of which is the pod's, up to one that fails."""
        for container in self.all:
            if self._over():
                return
            self.waiting = "PodInitializing" if container in self.init else "ContainerCreating"
            container.start()
            self._report()
            while container.poll():
                time.sleep(0.02)
            if container.terminated is None or container.terminated["exitCode"]:
                return

    def _over(self) -> bool:
        return self._grace is not None or self._gone.is_set()

    def _until(self, done: Callable[[], object]) -> None:
        while not done() and not self._over():
            time.sleep(0.02)

    def _finish(self) -> None:
        ran = [container.terminated for container in self.all if container.terminated]
        whole = len(ran) == len(self.all) and not any(one["exitCode"] for one in ran)
        self._report()
        self._report("Succeeded" if whole and not self._disruption else "Failed")
        if self._grace is not None and not self.lost and not self._disruption:
            meta = self._pod["metadata"]
            over = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
            with suppress(ApiError):
                self._objects.delete(PODS, meta["namespace"], meta["name"], over)

    def _report(self, phase: str = "") -> None:
        if not self.lost:
            self._objects.change(PODS, self._pod, lambda draft: self._describe(draft, phase), "status")

    def _describe(self, pod: Object, ended: str) -> None:
        status, meta, spec = pod["status"], pod["metadata"], pod["spec"]
        initialized = all(one.terminated and not one.terminated["exitCode"] for one in self.init)
        running = all(one.started_at and not one.terminated for one in self.containers)
        started = any(one.started_at for one in self.containers)
        why = "PodCompleted" if ended else ""
        old = {entry["type"]: entry for entry in status.get("conditions", [])}
        new: Object = {"conditions": [old["DisruptionTarget"]] if "DisruptionTarget" in old else []}
        if self._disruption and ended:
            status["reason"], status["message"] = self._disruption
            condition(new, "DisruptionTarget", "True", "TerminationByKubelet", self._disruption[1])
        for type_, true, reason in (
            ("PodReadyToStartContainers", bool(started or any(one.started_at for one in self.init)), ""),
            ("Initialized", initialized, why or ("" if initialized else "ContainersNotInitialized")),
            ("Ready", running, why),
            ("ContainersReady", running, why),
        ):
            before = {"conditions": [copy.deepcopy(old[type_])]} if type_ in old else {}
            condition(before, type_, str(true), reason)
            new["conditions"] += before["conditions"]
        status["conditions"] = [*new["conditions"], old["PodScheduled"]]
        status["phase"] = ended or ("Running" if started else "Pending")
        ip = address(meta["namespace"], spec.get("hostname", meta["name"]), spec.get("subdomain", ""))
        status |= {"hostIP": "127.0.0.1"} | ({"podIP": ip, "podIPs": [{"ip": ip}]} if started else {})
        status.setdefault("startTime", now())
        if self.init:
            status["initContainerStatuses"] = [one.status("PodInitializing") for one in self.init]
        status["containerStatuses"] = [one.status(self.waiting, self._message) for one in self.containers]
