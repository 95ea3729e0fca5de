"""What Kueue does with work that has its quota: it waits for admission checks, and for pods to be ready.

Written from https://kueue.sigs.k8s.io/docs/concepts/admission_check/ and .../setup_wait_for_pods_ready/. Who answers a
check is its own controller, here a test. Delays between tries are shorter than a real Kueue's.
"""

from tests.cluster.control import Controller, Key
from tests.cluster.kueue import BY, owner, say
from tests.cluster.objects import JOBS, WORKLOADS, Change, Object, Objects, has, now, record

RETRY_S = 1.0


class AdmissionChecks(Controller):
    """Admits a Workload whose checks are all ready, and takes the quota of one that fails a check."""

    def key(self, change: Change) -> Key | None:
        meta = change.object["metadata"]
        return (meta["namespace"], meta["name"]) if change.kind is WORKLOADS and change.type != "DELETED" else None

    def sync(self, key: Key) -> float | None:
        workload = self._objects.find(WORKLOADS, *key)
        if workload is None or "admission" not in workload["status"] or has(workload, "Evicted"):
            return None
        states = {check["state"] for check in workload["status"].get("admissionChecks", [])}
        if "Rejected" in states:
            self._objects.change(WORKLOADS, workload, lambda draft: draft["spec"].update(active=False))
            why = "The workload is deactivated due to Admission check(s) rejected"
            evict(self._objects, workload, "DeactivatedDueToAdmissionCheck", why)
        elif "Retry" in states:
            evict(self._objects, workload, "AdmissionCheck", "At least one admission check is false", again=True)
        elif not has(workload, "Admitted") and states <= {"Ready"}:
            say(self._objects, workload, ("Admitted", "True", "Admitted", "The workload is admitted"))
        return None


class PodsReady(Controller):
    """Takes the quota of a Job whose pods are not all ready ``timeout_s`` after it was admitted, if that is set."""

    timeout_s: float | None = None

    def key(self, change: Change) -> Key | None:
        meta = change.object["metadata"]
        return (
            (meta["namespace"], meta["name"]) if change.kind is WORKLOADS and has(change.object, "Admitted") else None
        )

    def sync(self, key: Key) -> float | None:
        workload = self._objects.find(WORKLOADS, *key)
        if self.timeout_s is None or workload is None or not has(workload, "Admitted") or has(workload, "Evicted"):
            return None
        job = self._objects.find(JOBS, key[0], owner(workload))
        if job is None or has(workload, "Finished") or job["status"].get("ready", 0) >= job["spec"]["parallelism"]:
            return None
        left_s = self.timeout_s - self._objects.since(_admitted_at(workload))
        if left_s <= 0:
            why = f"Exceeded the PodsReady timeout {'/'.join(key)}"
            evict(self._objects, workload, "PodsReadyTimeout", why, again=True)
        return max(left_s, 0.1)


def evict(objects: Objects, workload: Object, reason: str, why: str, *, again: bool = False) -> None:
    """Take the quota of a Workload; ``again``: it may ask anew after a delay, and not before."""

    def delayed(draft: Object) -> None:
        count = draft["status"].get("requeueState", {}).get("count", 0) + 1
        draft["status"]["requeueState"] = {"count": count, "requeueAt": objects.now(RETRY_S)}

    if again:
        objects.change(WORKLOADS, workload, delayed, "status")
    say(objects, workload, ("Evicted", "True", reason, why))
    record(objects, workload, f"EvictedDueTo{reason}", why, BY)


def delayed_s(objects: Objects, workload: Object) -> float:
    """Seconds until a Workload may ask for quota again; 0 if it may. Its delay is forgotten once it is over."""
    at = workload["status"].get("requeueState", {}).get("requeueAt")
    if at is None:
        return 0.0
    left_s = -objects.since(at)
    if left_s <= 0:
        objects.change(WORKLOADS, workload, lambda draft: draft["status"]["requeueState"].pop("requeueAt"), "status")
        say(objects, workload, ("Requeued", "True", "BackoffFinished", "The workload backoff was finished"))
    return max(0.0, left_s)


def asked_checks(queue: Object, flavors: set[str]) -> list[Object]:
    """The checks that a ClusterQueue wants for these flavours, as a Workload has them at first."""
    rules = queue.get("admissionChecksStrategy", {}).get("admissionChecks", [])
    names = [rule["name"] for rule in rules if not rule.get("onFlavors") or flavors & set(rule["onFlavors"])]
    return [{"name": name, "state": "Pending", "message": "", "lastTransitionTime": now()} for name in names]


def _admitted_at(workload: Object) -> str:
    found = (one["lastTransitionTime"] for one in workload["status"]["conditions"] if one["type"] == "Admitted")
    return str(next(found))
