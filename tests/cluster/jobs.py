"""The Job controller: pods for indexes, counting them exactly once, and how a Job ends."""

import copy

from tests.cluster.admission import TRACKING, admit
from tests.cluster.control import Controller, Key
from tests.cluster.objects import JOBS, PODS, ApiError, Change, Object, Objects, condition, has, record, suffix

_INDEX = "batch.kubernetes.io/job-completion-index"


class JobController(Controller):
    """Follows the order of the real one: the decision (FailureTarget, SuccessCriteriaMet) and the pods not yet counted
    are written before finalizers go, and Failed or Complete only when every pod is counted and none terminates.
    Like it, it collects news of pods for a second; unlike it, it replaces failed pods at once."""

    pods_after_s = 1.0

    def key(self, change: Change) -> Key | None:
        meta = change.object["metadata"]
        if change.kind is JOBS:
            return meta["namespace"], meta["name"]
        name = meta.get("labels", {}).get("batch.kubernetes.io/job-name")
        return (meta["namespace"], name) if change.kind is PODS and name else None

    def sync(self, key: Key) -> float | None:
        namespace, name = key
        job = self._objects.find(JOBS, namespace, name)
        pods = self._objects.list(
            PODS, namespace, lambda pod: pod["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name") == name
        )
        uid = job["metadata"]["uid"] if job else ""
        mine = [pod for pod in pods if uid in [owner["uid"] for owner in pod["metadata"].get("ownerReferences", [])]]
        self._release([pod for pod in pods if pod not in mine or (job and "deletionTimestamp" in job["metadata"])])
        if job is None or "deletionTimestamp" in job["metadata"] or "managedBy" in job["spec"]:
            return None
        if has(job, "Complete") or has(job, "Failed"):
            return self._expire(job)
        return self._reconcile(job, mine)

    def _reconcile(self, job: Object, pods: list[Object]) -> float | None:
        spec, status = job["spec"], copy.deepcopy(job["status"])
        suspended = spec["suspend"]
        uncounted = status.setdefault("uncountedTerminatedPods", {})
        succeeded = set(_indexes(status.get("completedIndexes", "")))
        again: float | None = None
        if not suspended and "startTime" not in status:
            status["startTime"] = self._objects.now()
        fresh = [pod for pod in pods if TRACKING in pod["metadata"].get("finalizers", [])]
        ended = [pod for pod in fresh if pod["status"]["phase"] == "Succeeded" or self._failed(job, pod)]
        counted = {uid for uids in uncounted.values() for uid in uids}
        for pod in ended:
            if pod["status"]["phase"] == "Succeeded":
                succeeded.add(_index(pod))
            elif pod["metadata"]["uid"] not in counted and _rule(spec, pod)[0] != "Ignore":
                uncounted.setdefault("failed", []).append(pod["metadata"]["uid"])
        failures = status.get("failed", 0) + len(uncounted.get("failed", []))
        active = [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running") and not _deleting(pod)]

        target = next((c for c in status.get("conditions", []) if c["type"] == "FailureTarget"), None)
        if not target and not has(job, "SuccessCriteriaMet"):
            why = _policy_failure(spec, [pod for pod in fresh if pod["status"]["phase"] == "Failed"])
            reason = "PodFailurePolicy" if why else ""
            left = self._time_left(spec, status)
            if not why and failures > spec["backoffLimit"]:
                reason, why = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
            elif not why and not suspended and left is not None and left <= 0:
                reason, why = "DeadlineExceeded", "Job was active longer than specified deadline"
            elif not suspended:
                again = left
            if why:
                self._condition(status, "FailureTarget", reason, why)
                target = status["conditions"][-1]
        if target:
            self._delete(job, active, keep_finalizer=True)
            dropped = [pod["metadata"]["uid"] for pod in active if pod["metadata"]["uid"] not in counted]
            uncounted.setdefault("failed", []).extend(dropped)
            ended, active = [*ended, *active], []
        else:
            if suspended:
                self._delete(job, active, keep_finalizer=False)
                active = []
            elif len(succeeded) < spec["completions"]:
                active, refused = self._create(job, pods, active, succeeded)
                again = 0.5 if refused else again
            if len(succeeded) >= spec["completions"] and not active:
                self._condition(
                    status, "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"
                )
            elif suspended and self._condition(status, "Suspended", "JobSuspended", "Job suspended"):
                record(self._objects, job, "Suspended", "Job suspended", "job-controller")
            elif not suspended and has(job, "Suspended"):
                self._condition(status, "Suspended", "JobResumed", "Job resumed", "False")
                status["startTime"] = self._objects.now()
                record(self._objects, job, "Resumed", "Job resumed", "job-controller")
        status |= {"succeeded": len(succeeded), "completedIndexes": _intervals(succeeded)}
        status |= {"active": len(active), "terminating": sum(self._terminating(pod) for pod in pods)}
        status["ready"] = sum(has(pod, "Ready") for pod in active)
        job = self._write(job, status)
        self._release(ended)

        status = copy.deepcopy(job["status"])
        status["failed"] = status.get("failed", 0) + len(status["uncountedTerminatedPods"].pop("failed", []))
        job = self._write(job, status)
        if not status["terminating"] and not active and (target or has(job, "SuccessCriteriaMet")):
            self._finish(job, status)
        return again

    def _finish(self, job: Object, status: Object) -> None:
        decided = next(c for c in status["conditions"] if c["type"] in ("FailureTarget", "SuccessCriteriaMet"))
        failed = decided["type"] == "FailureTarget"
        self._condition(status, "Failed" if failed else "Complete", decided["reason"], decided["message"])
        if failed:
            record(self._objects, job, decided["reason"], decided["message"], "job-controller", "Warning")
        else:
            status["completionTime"] = self._objects.now()
            record(self._objects, job, "Completed", "Job completed", "job-controller")
        self._write(job, status)

    def _create(
        self, job: Object, pods: list[Object], active: list[Object], done: set[int]
    ) -> tuple[list[Object], bool]:
        """Create what is missing. With replacement policy Failed a terminating pod still holds its place."""
        spec, waits = job["spec"], job["spec"]["podReplacementPolicy"] == "Failed"
        held = active + [pod for pod in pods if waits and self._terminating(pod)]
        taken = done | {_index(pod) for pod in held}
        wanted = [index for index in range(spec["completions"]) if index not in taken]
        for index in wanted[: max(spec["parallelism"] - len(held), 0)]:
            try:
                pod = self._objects.create(PODS, job["metadata"]["namespace"], _pod(self._objects, job, index))
            except ApiError as error:
                text = f"Error creating: {error}"
                record(self._objects, job, "FailedCreate", text, "job-controller", "Warning")
                return active, True
            active = [*active, pod]
            record(self._objects, job, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}", "job-controller")
        return active, False

    def _delete(self, job: Object, pods: list[Object], keep_finalizer: bool) -> None:
        if not keep_finalizer:
            self._release(pods)
        for pod in pods:
            name = pod["metadata"]["name"]
            self._objects.delete(PODS, pod["metadata"]["namespace"], name)
            record(self._objects, job, "SuccessfulDelete", f"Deleted pod: {name}", "job-controller")

    def _release(self, pods: list[Object]) -> None:
        for pod in pods:
            if TRACKING in pod["metadata"].get("finalizers", []):
                self._objects.change(PODS, pod, lambda draft: draft["metadata"]["finalizers"].remove(TRACKING))

    def _write(self, job: Object, status: Object) -> Object:
        trimmed = {name: value for name, value in status.items() if value or name not in _OMIT_EMPTY}
        return self._objects.update(JOBS, job | {"status": trimmed}, "status")

    def _expire(self, job: Object) -> float | None:
        """Seconds until a finished Job is removed; removes it when they are over."""
        meta, ttl = job["metadata"], job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        left = ttl - self._objects.since(job["status"]["conditions"][-1]["lastTransitionTime"])
        if left <= 0:
            self._objects.delete(JOBS, meta["namespace"], meta["name"], {"propagationPolicy": "Foreground"})
        return max(left, 0.1)

    def _condition(self, status: Object, type_: str, reason: str, message: str, value: str = "True") -> bool:
        at = self._objects.now()
        return condition(status, type_, value, reason, message, {"lastProbeTime": at, "lastTransitionTime": at})

    def _time_left(self, spec: Object, status: Object) -> float | None:
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is None or "startTime" not in status:
            return None
        return float(deadline) - self._objects.since(status["startTime"])

    def _failed(self, job: Object, pod: Object) -> bool:
        """A pod that was deleted counts as failed at once, unless only failed pods are replaced."""
        if job["spec"]["podReplacementPolicy"] == "Failed":
            return bool(pod["status"]["phase"] == "Failed")
        return pod["status"]["phase"] == "Failed" or (_deleting(pod) and pod["status"]["phase"] != "Succeeded")

    def _terminating(self, pod: Object) -> bool:
        current = self._objects.find(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
        return current is not None and _deleting(current) and current["status"]["phase"] in ("Pending", "Running")


_OMIT_EMPTY = ("active", "succeeded", "failed", "completedIndexes")


def _index(pod: Object) -> int:
    return int(pod["metadata"]["annotations"][_INDEX])


def _deleting(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _policy_failure(spec: Object, failed: list[Object]) -> str:
    """The message of the first failed pod that a FailJob rule matches."""
    for pod in failed:
        action, message = _rule(spec, pod)
        if action == "FailJob":
            return message
    return ""


def _rule(spec: Object, pod: Object) -> tuple[str, str]:
    """Action and message of the first rule of the podFailurePolicy that matches a failed pod."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for at, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or []):
        tail = f"matching {rule['action']} rule at index {at}"
        for wanted in rule.get("onPodConditions") or []:
            if has(pod, wanted["type"], wanted.get("status", "True")):
                return rule["action"], f"Pod {name} has condition {wanted['type']} {tail}"
        codes = rule.get("onExitCodes")
        for container in pod["status"].get("containerStatuses", []) if codes else []:
            code = container["state"].get("terminated", {}).get("exitCode", 0)
            fits = codes.get("containerName") in (None, container["name"])
            if code and fits and (code in codes["values"]) == (codes["operator"] == "In"):
                return rule[
                    "action"
                ], f"Container {container['name']} for pod {name} failed with exit code {code} {tail}"
    return "", ""


def _pod(objects: Objects, job: Object, index: int) -> Object:
    """The pod of one index as the controller asks for it."""
    meta, pod = job["metadata"], copy.deepcopy(job["spec"]["template"])
    name, value = f"{meta['name']}-{index}", {_INDEX: str(index)}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
    pod["metadata"] |= {"generateName": f"{name}-", "name": f"{name}-{suffix()}", "finalizers": [TRACKING]}
    pod["metadata"]["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
    pod["metadata"]["labels"] |= value
    pod["metadata"]["annotations"] = pod["metadata"].get("annotations", {}) | value
    pod["spec"]["hostname"] = name
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{_INDEX}']"}}
    for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]:
        container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
    return admit(objects, PODS, meta["namespace"], pod)


def _intervals(indexes: set[int]) -> str:
    """0, 1, 3, 4, 5 are "0,1,3-5"."""
    parts: list[str] = []
    for first in sorted(index for index in indexes if index - 1 not in indexes):
        last = next(index for index in range(first, max(indexes) + 1) if index + 1 not in indexes)
        parts.append(f"{first}" if last == first else f"{first}{'-' if last > first + 1 else ','}{last}")
    return ",".join(parts)


def _indexes(text: str) -> list[int]:
    ends = [(part.partition("-")[0], part.rpartition("-")[2]) for part in text.split(",") if part]
    return [index for first, last in ends for index in range(int(first), int(last) + 1)]
