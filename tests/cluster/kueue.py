"""Kueue in small: a Workload for each Job with a queue, which is suspended until its Workload is admitted.

``kueue_scheduler.py`` admits and evicts Workloads.
"""

import uuid

from tests.cluster.control import Controller, Key
from tests.cluster.objects import (
    FLAVORS,
    JOBS,
    PRIORITIES,
    WORKLOADS,
    Change,
    Object,
    Objects,
    condition,
    has,
    record,
)

QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
BY = "batch/job-kueue-controller"


class JobReconciler(Controller):
    """Keeps a Job suspended until its Workload is admitted, and suspends it again when that is evicted."""

    def key(self, change: Change) -> Key | None:
        meta = change.object["metadata"]
        if change.kind is JOBS and QUEUE in meta.get("labels", {}):
            return meta["namespace"], meta["name"]
        return (meta["namespace"], owner(change.object)) if change.kind is WORKLOADS else None

    def sync(self, key: Key) -> float | None:
        job = self._objects.find(JOBS, *key)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return None
        name = f"job-{job['metadata']['name'][:50]}-{uuid.uuid5(uuid.NAMESPACE_OID, job['metadata']['uid']).hex[:5]}"
        workload = self._objects.find(WORKLOADS, key[0], name)
        ended = next((type_ for type_ in ("Complete", "Failed") if has(job, type_)), "")
        if workload is None:
            if not ended:
                self._hold(job, None)
                self._objects.create(WORKLOADS, key[0], self._workload(job, name))
                record(self._objects, job, "CreatedWorkload", f"Created Workload: {key[0]}/{name}", BY)
        elif ended:
            reason = "Succeeded" if ended == "Complete" else "Failed"
            say(self._objects, workload, ("Finished", "True", reason, job["status"]["conditions"][-1]["message"]))
        elif changed := self._changed(job, workload):
            self._objects.change(WORKLOADS, workload, lambda draft: draft["spec"].update(changed))
        elif has(workload, "Admitted") and not has(workload, "Evicted"):
            if job["spec"]["suspend"]:
                admission = workload["status"]["admission"]
                self._objects.change(JOBS, job, lambda draft: self._start(draft, admission))
                record(self._objects, job, "Started", f"Admitted by clusterQueue {admission['clusterQueue']}", BY)
        elif not job["spec"]["suspend"]:
            self._hold(job, workload)
            record(self._objects, job, "Stopped", message(workload, "Evicted") or "Not admitted by cluster queue", BY)
        elif has(workload, "Evicted") and "admission" in workload["status"] and not job["status"].get("active"):
            why, reason = message(workload, "Evicted"), reason_of(workload, "Evicted")
            self._objects.change(WORKLOADS, workload, _without_quota, "status")
            say(
                self._objects,
                workload,
                ("QuotaReserved", "False", "PendingEvaluation", why),
                ("Admitted", "False", "NoReservation", "The workload has no reservation"),
                ("Requeued", str(reason == "Preempted"), reason, why),
            )
        return None

    def _changed(self, job: Object, workload: Object) -> Object:
        """What a Job's labels ask anew: also of one that runs another priority (since 0.15), but no other queue."""
        new = {name: value for name, value in self._asked(job).items() if workload["spec"].get(name) != value}
        return new if not has(workload, "Admitted") else {name: new[name] for name in new if name != "queueName"}

    def _hold(self, job: Object, workload: Object | None) -> None:
        template = workload["spec"]["podSets"][0]["template"] if workload else job["spec"]["template"]
        asked = template["spec"].get("nodeSelector")

        def suspend(draft: Object) -> None:
            draft["spec"]["suspend"] = True
            draft["status"].pop("startTime", None)
            pod = draft["spec"]["template"]["spec"]
            pod.pop("nodeSelector", None)
            pod.update({"nodeSelector": asked} if asked else {})

        self._objects.change(JOBS, job, suspend, "all")

    def _start(self, job: Object, admission: Object) -> None:
        job["spec"]["suspend"] = False
        pod = job["spec"]["template"]["spec"]
        for name in set(admission["podSetAssignments"][0]["flavors"].values()):
            if labels := self._objects.get(FLAVORS, "", name).get("spec", {}).get("nodeLabels"):
                pod["nodeSelector"] = pod.get("nodeSelector", {}) | labels

    def _workload(self, job: Object, name: str) -> Object:
        meta = job["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
        pods = {"name": "main", "count": job["spec"]["parallelism"], "template": job["spec"]["template"]}
        return {
            "metadata": {
                "name": name,
                "labels": {"kueue.x-k8s.io/job-uid": meta["uid"]},
                "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {"active": True, "podSets": [pods], **self._asked(job)},
            "status": {},
        }

    def _asked(self, job: Object) -> Object:
        class_ = job["metadata"]["labels"].get(PRIORITY, "")
        asked = {"queueName": job["metadata"]["labels"][QUEUE], "priority": self._priority(job)}
        source = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": class_}
        return asked | ({"priorityClassRef": source} if class_ else {})

    def _priority(self, job: Object) -> int:
        found = self._objects.find(PRIORITIES, "", job["metadata"]["labels"].get(PRIORITY, ""))
        return int(found["value"]) if found else 0


def say(objects: Objects, workload: Object, *conditions: tuple[str, str, str, str]) -> None:
    def edit(draft: Object) -> None:
        also = {"observedGeneration": 1, "lastTransitionTime": objects.now()}
        for type_, value, reason, message in conditions:
            condition(draft["status"], type_, value, reason, message, also)

    objects.change(WORKLOADS, workload, edit, "status")


def owner(workload: Object) -> str:
    """The Job that a Workload was made for."""
    return str(workload["metadata"]["ownerReferences"][0]["name"])


def _without_quota(draft: Object) -> None:
    """In place: who asks again is checked again, but for what was rejected."""
    draft["status"].pop("admission")
    for check in draft["status"].get("admissionChecks", []):
        if check["state"] != "Rejected":
            before = f"Reset to Pending after eviction. Previously: {check['state']}"
            check |= {"state": "Pending", "message": f"{before}. {check['message']}".rstrip(". ")}


def reason_of(workload: Object, type_: str) -> str:
    return next((one["reason"] for one in workload["status"].get("conditions", []) if one["type"] == type_), "")


def message(workload: Object, type_: str) -> str:
    found = [one["message"] for one in workload["status"].get("conditions", []) if one["type"] == type_]
    return found[0] if found else ""
