"""Kueue in small: a Workload for each Job with a queue, quota by ClusterQueue and flavour, preemption by priority.

Written from Kueue's API and messages (0.18, with the reasons that say why a workload waits), not from a recording.
Cohorts share nothing here, and admission checks, partial admission and topology are not covered.
"""

import uuid

from tests.cluster.containers import quantity, written
from tests.cluster.control import Controller, Key
from tests.cluster.node import requests, tolerates
from tests.cluster.objects import (
    CLUSTER_QUEUES,
    FLAVORS,
    JOBS,
    LOCAL_QUEUES,
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
_BY = "batch/job-kueue-controller"


class JobReconciler(Controller):
    """Keeps a Job suspended until its Workload is admitted, and suspends it again when that is evicted."""

    def key(self, change: Change) -> Key | None:
        meta = change.object["metadata"]
        if change.kind is JOBS and QUEUE in meta.get("labels", {}):
            return meta["namespace"], meta["name"]
        return (meta["namespace"], meta["ownerReferences"][0]["name"]) if change.kind is WORKLOADS else None

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
                record(self._objects, job, "CreatedWorkload", f"Created Workload: {key[0]}/{name}", _BY)
        elif ended:
            reason = "Succeeded" if ended == "Complete" else "Failed"
            say(self._objects, workload, ("Finished", "True", reason, job["status"]["conditions"][-1]["message"]))
        elif changed := self._changed(job, workload):
            self._objects.change(WORKLOADS, workload, lambda draft: draft["spec"].update(changed))
        elif has(workload, "Admitted") and not has(workload, "Evicted"):
            if job["spec"]["suspend"]:
                admission = workload["status"]["admission"]
                self._objects.change(JOBS, job, lambda draft: self._start(draft, admission))
                record(self._objects, job, "Started", f"Admitted by clusterQueue {admission['clusterQueue']}", _BY)
        elif not job["spec"]["suspend"]:
            self._hold(job, workload)
            record(self._objects, job, "Stopped", _message(workload, "Evicted") or "Not admitted by cluster queue", _BY)
        elif has(workload, "Evicted") and has(workload, "Admitted") and not job["status"].get("active"):
            why = _message(workload, "Evicted")
            self._objects.change(WORKLOADS, workload, lambda draft: draft["status"].pop("admission"), "status")
            say(
                self._objects,
                workload,
                ("QuotaReserved", "False", "PendingEvaluation", why),
                ("Admitted", "False", "NoReservation", "The workload has no reservation"),
                ("Requeued", "True", "Preempted", why),
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


class QueueScheduler(Controller):
    """Reserves quota for the pending Workloads, the highest priority first, and evicts lower ones to make room."""

    def key(self, change: Change) -> Key | None:
        return ("queues",) if change.kind in (WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, FLAVORS) else None

    def sync(self, key: Key) -> float | None:
        everything = [one for one in self._objects.list(WORKLOADS) if not has(one, "Finished")]
        pending = [one for one in everything if "admission" not in one["status"]]
        for workload in sorted(pending, key=lambda one: -_priority(one)):
            queue = self._objects.find(LOCAL_QUEUES, workload["metadata"]["namespace"], workload["spec"]["queueName"])
            cluster_queue = queue and self._objects.find(CLUSTER_QUEUES, "", queue["spec"]["clusterQueue"])
            if not queue or not cluster_queue:
                missing = f"LocalQueue {workload['spec']['queueName']}"
                what = f"ClusterQueue {queue['spec']['clusterQueue']}" if queue else missing
                say(self._objects, workload, ("QuotaReserved", "False", "Misconfigured", f"{what} doesn't exist"))
                continue
            self._admit(workload, cluster_queue, [one for one in everything if "admission" in one["status"]])
            everything = [one for one in self._objects.list(WORKLOADS) if not has(one, "Finished")]
        return None

    def _admit(self, workload: Object, queue: Object, admitted: list[Object]) -> None:
        name, pods = queue["metadata"]["name"], workload["spec"]["podSets"][0]
        wanted = {resource: one * pods["count"] for resource, one in requests(pods["template"]).items()}
        flavors, reason, why = self._flavors(pods["template"], wanted, queue, admitted)
        if reason:
            victims = self._victims(workload, wanted, queue, admitted)
            for victim in victims:
                self._evict(victim, workload)
            if victims:
                reason = "WaitingForPreemptedWorkloads"
                why += f". Pending the preemption of {len(victims)} workload(s)"
            text = f"couldn't assign flavors to pod set main: {why}"
            return say(self._objects, workload, ("QuotaReserved", "False", reason, text))
        usage = {resource: _written(resource, amount) for resource, amount in wanted.items()}
        assigned = {"name": "main", "flavors": flavors, "resourceUsage": usage, "count": pods["count"]}
        admission = {"clusterQueue": name, "podSetAssignments": [assigned]}
        self._objects.change(WORKLOADS, workload, lambda draft: draft["status"].update(admission=admission), "status")
        before = [type_ for type_ in ("Evicted", "Preempted") if has(workload, type_)]
        say(
            self._objects,
            workload,
            ("QuotaReserved", "True", "QuotaReserved", f"Quota reserved in ClusterQueue {name}"),
            ("Admitted", "True", "Admitted", "The workload is admitted"),
            *((type_, "False", "QuotaReserved", f"Previously: {_message(workload, type_)}") for type_ in before),
        )

    def _flavors(
        self, template: Object, wanted: dict[str, float], queue: Object, admitted: list[Object]
    ) -> tuple[dict[str, str], str, str]:
        """The first flavour of each group of resources that has room; otherwise a reason and what is short."""
        chosen: dict[str, str] = {}
        for group in queue["spec"]["resourceGroups"]:
            here = {resource: amount for resource, amount in wanted.items() if resource in group["coveredResources"]}
            refused: list[tuple[str, str]] = []
            for flavor in group["flavors"]:
                refusal = self._refusal(template, here, queue["metadata"]["name"], flavor, admitted)
                if not refusal:
                    chosen |= dict.fromkeys(here, flavor["name"])
                    break
                refused.append(refusal)
            else:
                return {}, max(reason for reason, _ in refused), ", ".join(why for _, why in refused)
        missing = ", ".join(sorted(set(wanted) - set(chosen)))
        return chosen, "NoMatchingFlavor" if missing else "", f"resource {missing} unavailable in ClusterQueue"

    def _refusal(
        self, template: Object, wanted: dict[str, float], queue: str, flavor: Object, admitted: list[Object]
    ) -> tuple[str, str] | None:
        labels = self._objects.get(FLAVORS, "", flavor["name"]).get("spec", {}).get("nodeLabels", {})
        for taint in self._objects.get(FLAVORS, "", flavor["name"]).get("spec", {}).get("nodeTaints", []):
            if not any(tolerates(one, taint) for one in template["spec"].get("tolerations", [])):
                words = f"{{{taint['key']} {taint.get('value', '')} {taint['effect']} <nil>}}"
                return "NoMatchingFlavor", f"untolerated taint {words} in flavor {flavor['name']}"
        if any(labels.get(name, value) != value for name, value in template["spec"].get("nodeSelector", {}).items()):
            return "NoMatchingFlavor", f"flavor {flavor['name']} doesn't match node affinity"
        for resource, amount in wanted.items():
            nominal = next(quantity(one["nominalQuota"]) for one in flavor["resources"] if one["name"] == resource)
            used = _usage(admitted, queue, flavor["name"], resource)
            where = f"quota for {resource} in flavor {flavor['name']}"
            if amount > nominal:
                beyond = f"{_written(resource, amount)} > {_written(resource, nominal)}"
                return "ExceedsMaxQuota", f"insufficient {where}, request > maximum capacity ({beyond})"
            if used + amount > nominal:
                more = _written(resource, used + amount - nominal)
                return "WaitingForQuota", f"insufficient unused {where}, {more} more needed"
        return None

    def _victims(
        self, workload: Object, wanted: dict[str, float], queue: Object, admitted: list[Object]
    ) -> list[Object]:
        """Whom to evict: of lower priority and this queue, the lowest first, and none where even all do not suffice."""
        name = queue["metadata"]["name"]
        if queue["spec"].get("preemption", {}).get("withinClusterQueue", "Never") == "Never":
            return []
        lower = [one for one in admitted if _queue(one) == name and _priority(one) < _priority(workload)]
        if any(has(one, "Evicted") for one in lower):
            return []
        victims: list[Object] = []
        for candidate in sorted(lower, key=lambda one: (_priority(one), -int(one["metadata"]["resourceVersion"]))):
            victims.append(candidate)
            rest = [one for one in admitted if one not in victims]
            if not self._flavors(workload["spec"]["podSets"][0]["template"], wanted, queue, rest)[1]:
                return victims
        return []

    def _evict(self, victim: Object, workload: Object) -> None:
        uid, job = workload["metadata"]["uid"], workload["metadata"]["labels"]["kueue.x-k8s.io/job-uid"]
        who = f"a workload (UID: {uid}, JobUID: {job})"
        why = f"Preempted to accommodate {who} due to prioritization in the ClusterQueue"
        say(self._objects, victim, ("Evicted", "True", "Preempted", why), ("Preempted", "True", "InClusterQueue", why))
        record(self._objects, victim, "EvictedDueToPreempted", why, _BY)


def _written(resource: str, amount: float) -> str:
    """As Kueue writes what it has counted: memory and storage by 1,024."""
    return written(amount, binary=resource in ("memory", "ephemeral-storage"))


def say(objects: Objects, workload: Object, *conditions: tuple[str, str, str, str]) -> None:
    def edit(draft: Object) -> None:
        for type_, value, reason, message in conditions:
            condition(draft["status"], type_, value, reason, message, {"observedGeneration": 1})

    objects.change(WORKLOADS, workload, edit, "status")


def _usage(admitted: list[Object], queue: str, flavor: str, resource: str) -> float:
    assigned = [one["status"]["admission"]["podSetAssignments"][0] for one in admitted if _queue(one) == queue]
    return sum(quantity(one["resourceUsage"][resource]) for one in assigned if one["flavors"].get(resource) == flavor)


def _queue(workload: Object) -> str:
    return str(workload["status"]["admission"]["clusterQueue"])


def _priority(workload: Object) -> int:
    return int(workload["spec"].get("priority", 0))


def _message(workload: Object, type_: str) -> str:
    found = [one["message"] for one in workload["status"].get("conditions", []) if one["type"] == type_]
    return found[0] if found else ""
