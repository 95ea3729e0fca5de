"""MultiKueue in small: a Job that was admitted here runs on another cluster, and only its status comes back.

Written from https://kueue.sigs.k8s.io/docs/concepts/multikueue/ and its code (pkg/controller/jobs/job,
job_multikueue_adapter.go). Not here: a choice among several clusters, and a queue at the other one.
"""

import threading

from tests.cluster.admission import MULTIKUEUE, admit
from tests.cluster.cluster import Cluster
from tests.cluster.kueue import QUEUE, owner
from tests.cluster.objects import CHECKS, JOBS, WORKLOADS, Object

_ORIGIN = "kueue.x-k8s.io/multikueue-origin"


class MultiKueue:
    """Sends Jobs of ``here`` to ``there``, where their namespaces are, until it is closed."""

    def __init__(self, here: Cluster, there: Cluster) -> None:
        self._here, self._there = here.objects, there.objects
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="multikueue", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(0.1):
            for workload in self._here.list(WORKLOADS):
                self._send(workload)
            for copy in self._there.list(JOBS):
                self._sync(copy)

    def _send(self, workload: Object) -> None:
        """Make the copy of an admitted Job, and admit it here. Its Service and policies are no part of it."""
        namespace, name = workload["metadata"]["namespace"], owner(workload)
        checks = workload["status"].get("admissionChecks", [])
        mine = [each for each in checks if self._is_mine(each["name"]) and each["state"] == "Pending"]
        job = self._here.find(JOBS, namespace, name)
        if "admission" not in workload["status"] or not mine or job is None:
            return
        spec = {key: value for key, value in job["spec"].items() if key not in ("managedBy", "selector")}
        template = {**spec["template"], "metadata": {**spec["template"]["metadata"]}}
        labels = template["metadata"]["labels"]
        template["metadata"]["labels"] = {key: labels[key] for key in labels if "controller-uid" not in key}
        meta = {"name": name, "annotations": job["metadata"].get("annotations", {})}
        meta["labels"] = {key: value for key, value in job["metadata"]["labels"].items() if key != QUEUE}
        meta["labels"][_ORIGIN] = "here"
        copy = {"metadata": meta, "spec": {**spec, "suspend": False, "template": template}}
        self._there.create(JOBS, namespace, admit(self._there, JOBS, namespace, copy))
        ready = [each | ({"state": "Ready"} if each in mine else {}) for each in checks]
        self._here.change(WORKLOADS, workload, lambda draft: draft["status"].update(admissionChecks=ready), "status")

    def _is_mine(self, check: str) -> bool:
        found = self._here.find(CHECKS, "", check)
        return found is not None and found["spec"]["controllerName"] == MULTIKUEUE

    def _sync(self, copy: Object) -> None:
        """Bring a copy's status back; a copy whose Job is gone goes too."""
        namespace, name = copy["metadata"]["namespace"], copy["metadata"]["name"]
        job = self._here.find(JOBS, namespace, name)
        if job is None:
            if "deletionTimestamp" not in copy["metadata"]:
                self._there.delete(JOBS, namespace, name, {"propagationPolicy": "Background"})
        elif not job["spec"]["suspend"] and job["status"] != copy["status"]:
            self._here.change(JOBS, job, lambda draft: draft.update(status=copy["status"]), "status")
