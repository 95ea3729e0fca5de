"""Which version of Kueue's API is spoken, by what the cluster's discovery says."""

import json
from typing import Any

import pytest

from ft_resources.kubernetes.api import Api
from ft_resources.kubernetes.kueue_api import list_priority_classes, served_version, workload_of
from tests.resources.kubernetes.connections import Answer, client_over

NOT_THERE = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
# One Workload in each version of Kueue's type.
OLD = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "Workload",
    "metadata": {"name": "job-ft-checkpoint"},
    "spec": {"queueName": "ft", "priority": 2000, "priorityClassName": "ft-batch", "podSets": [],
             "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"},
}  # fmt: skip
NEW = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "metadata": {"name": "job-ft-checkpoint"},
    "spec": {"queueName": "ft", "priority": 2000, "podSets": [],
             "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "ft-batch"}},
}  # fmt: skip
JOB = {"metadata": {"uid": "u"}}
WORKLOADS = {"v1beta1": OLD, "v1beta2": NEW}


class Served:
    """A cluster whose Kueue serves ``versions``; everything else is not there."""

    def __init__(self, *versions: str) -> None:
        self._versions = versions

    def api(self) -> Api:
        def answer(method: str, path: str) -> Answer:
            code, body = self._answer(path)
            return code, {}, json.dumps(body).encode()

        return Api(client=client_over(answer))

    def _answer(self, path: str) -> tuple[int, dict[str, Any]]:
        _, _, group, *rest = path.split("/")
        if group != "kueue.x-k8s.io" or not self._versions:
            return 404, NOT_THERE
        if not rest:
            served = [{"groupVersion": f"{group}/{version}", "version": version} for version in self._versions]
            return 200, {"kind": "APIGroup", "name": group, "versions": served, "preferredVersion": served[0]}
        if rest[0] not in self._versions:
            return 404, NOT_THERE
        return 200, {"metadata": {}, "items": [WORKLOADS[rest[0]]]}


def test_the_newest_version_that_is_served_and_known_is_spoken() -> None:
    def spoken(*versions: str) -> str | None:
        return served_version(Served(*versions).api())

    assert spoken("v1beta2") == "v1beta2"
    assert spoken("v1beta1", "v1beta2") == "v1beta2"
    assert spoken("v1beta1") == "v1beta1"
    assert spoken() is None
    assert spoken("v1alpha1") is None


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_objects_are_read_where_they_are_served(version: str) -> None:
    api = Served(version).api()
    assert workload_of(api, "ft-acme", JOB) == WORKLOADS[version]
    assert list_priority_classes(api) == [WORKLOADS[version]]


def test_a_cluster_without_kueue_has_no_workloads() -> None:
    assert workload_of(Served().api(), "ft-acme", JOB) is None
