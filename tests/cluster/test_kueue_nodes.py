"""Queues and nodes: checks that hold work back, pods that are not ready in time, and nodes that do not lie together."""

from typing import Any

import pytest

from tests.cluster import kueue_checks
from tests.cluster.fixtures import Access, until
from tests.cluster.kueue import QUEUE

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
RACK, HOST = "example.com/rack", "kubernetes.io/hostname"


def conditions(workload: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in workload.get("status", {}).get("conditions", [])}


def told(cluster: Access, workload: str, reason: str) -> None:
    """Wait until an event says that something happened to a Workload, whatever came after."""
    until(lambda: reason in [each for each, _ in cluster.events(workload)])


def test_a_job_with_quota_waits_until_its_check_is_ready(cluster: Access) -> None:
    check = cluster.check()
    cluster.run("a", SLEEP, gpus=1, suspend=True, labels={QUEUE: cluster.queue(gpus=1, check=check)})
    until(lambda: conditions(cluster.workload("a")).get("QuotaReserved") == ("True", "QuotaReserved"))
    assert conditions(cluster.workload("a")).get("Admitted", ("False",))[0] == "False"
    assert cluster.pods("a") == []
    cluster.answer("a", check, "Ready", "2 nodes")
    cluster.running("a")


def test_a_check_that_is_to_be_tried_again_takes_the_quota_and_asks_anew(cluster: Access) -> None:
    check = cluster.check()
    cluster.run("a", SLEEP, gpus=1, suspend=True, labels={QUEUE: cluster.queue(gpus=1, check=check)})
    cluster.answer("a", check, "Retry", "no nodes")
    name = cluster.workload("a")["metadata"]["name"]
    told(cluster, name, "EvictedDueToAdmissionCheck")
    cluster.answer("a", check, "Ready")
    cluster.running("a")


def test_a_check_that_rejects_leaves_the_workload_inactive_and_its_quota_to_others(cluster: Access) -> None:
    check = cluster.check()
    queue = cluster.queue(gpus=1, check=check)
    for name in ("a", "b"):
        cluster.run(name, SLEEP, gpus=1, suspend=True, labels={QUEUE: queue})
    cluster.answer("a", check, "Rejected", "never")
    until(lambda: cluster.workload("a")["spec"]["active"] is False)
    cluster.answer("b", check, "Ready")
    cluster.running("b")
    assert cluster.pods("a") == []


def test_pods_that_are_not_ready_in_time_give_their_quota_back_and_are_tried_again(
    cluster: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kueue_checks, "RETRY_S", cluster.long_s)
    cluster.machines.pods_ready.timeout_s = cluster.long_s
    cluster.machines.remove_node("n1")
    queue = cluster.queue(gpus=2)
    cluster.run("a", SLEEP, gpus=2, suspend=True, labels={QUEUE: queue})
    until(lambda: cluster.pods("a"))
    cluster.after(cluster.long_s)
    until(lambda: conditions(cluster.workload("a")).get("Evicted") == ("True", "PodsReadyTimeout"))
    until(lambda: not cluster.pods("a"))
    assert cluster.job("a").spec.suspend
    assert cluster.workload("a")["status"]["requeueState"]["count"] == 1
    cluster.machines.add_node("n2")
    cluster.after(cluster.long_s)
    cluster.running("a")


def racks(cluster: Access) -> str:
    """A queue for two nodes of 8 GPUs, each in a rack of its own."""
    machines = cluster.machines
    machines.remove_node("n1")
    for name in ("n2", "n3"):
        machines.add_node(name, gpus=8, labels={RACK: f"rack-{name}", HOST: name})
    cluster.make("topologies", "Topology", "racks", {"spec": {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}})
    return cluster.queue(gpus=32, topologyName="racks")


def run_on(cluster: Access, name: str, queue: str, pods: int, **asked: str) -> None:
    notes = {f"kueue.x-k8s.io/podset-{kind}-topology": level for kind, level in asked.items()}
    cluster.run(
        name,
        SLEEP,
        gpus=8,
        suspend=True,
        completions=pods,
        parallelism=pods,
        labels={QUEUE: queue},
        annotations=notes,
    )


def why(cluster: Access, job: str) -> str:
    def message() -> str:
        found = cluster.workload(job).get("status", {}).get("conditions", [])
        return next((one["message"] for one in found if (one["type"], one["status"]) == ("QuotaReserved", "False")), "")

    return until(message)


def test_a_required_level_has_to_have_one_unit_with_room_for_all_pods(cluster: Access) -> None:
    queue = racks(cluster)
    run_on(cluster, "a", queue, 2, required=RACK)
    assert 'topology "racks" allows to fit only 1 out of 2 pod(s)' in why(cluster, "a")
    run_on(cluster, "b", queue, 2, preferred=RACK)
    cluster.running("b", count=2)
    run_on(cluster, "c", queue, 1, unconstrained="true")
    assert 'topology "racks" doesn\'t allow to fit any of 1 pod(s)' in why(cluster, "c")


def test_a_flavour_with_a_topology_is_for_jobs_that_ask_for_a_level_of_it(cluster: Access) -> None:
    queue = racks(cluster)
    run_on(cluster, "a", queue, 1)
    assert "supports only TopologyAwareScheduling" in why(cluster, "a")
    run_on(cluster, "b", queue, 1, preferred="example.com/block")
    assert "does not contain the requested level" in why(cluster, "b")
