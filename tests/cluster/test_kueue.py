"""Queues: a Job waits until its quota is free, gives way to a higher priority, and its Workload says why it waits."""

from typing import Any

from tests.cluster.fixtures import Access, until
from tests.cluster.kueue import PRIORITY, QUEUE

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


def _conditions(workload: dict[str, Any]) -> dict[str, tuple[str, str]]:
    found = workload.get("status", {}).get("conditions", [])
    return {one["type"]: (one["status"], one["reason"]) for one in found}


def _waits(cluster: Access, job: str) -> str:
    """The message of a Workload without quota, once it has one."""

    def message() -> str:
        for one in cluster.workload(job).get("status", {}).get("conditions", []):
            if (one["type"], one["status"]) == ("QuotaReserved", "False"):
                return str(one["message"])
        return ""

    return until(message)


def test_a_job_with_a_queue_starts_when_it_is_admitted(cluster: Access) -> None:
    queue = cluster.queue(gpus=2)
    cluster.run("a", SLEEP, gpus=1, suspend=True, completions=2, parallelism=2, labels={QUEUE: queue})
    cluster.running("a", count=2)
    workload = cluster.workload("a")
    assert _conditions(workload)["QuotaReserved"] == ("True", "QuotaReserved")
    assert _conditions(workload)["Admitted"] == ("True", "Admitted")
    assert workload["status"]["admission"]["clusterQueue"] == queue
    assert workload["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] == {"nvidia.com/gpu": "2"}


def test_a_job_waits_for_quota_and_gets_it_when_another_ends(cluster: Access) -> None:
    queue = cluster.queue(gpus=2)
    cluster.run("a", SLEEP, gpus=2, suspend=True, labels={QUEUE: queue})
    cluster.running("a")
    cluster.run("b", SLEEP, gpus=1, suspend=True, labels={QUEUE: queue})
    assert "insufficient unused quota for nvidia.com/gpu" in _waits(cluster, "b")
    assert cluster.pods("b") == []
    cluster.batch.delete_namespaced_job("a", cluster.namespace, propagation_policy="Background")
    cluster.running("b")


def test_a_finished_job_gives_its_quota_back(cluster: Access) -> None:
    queue = cluster.queue(gpus=1)
    for name in ("a", "b"):
        cluster.run(name, "pass", gpus=1, suspend=True, labels={QUEUE: queue})
    for name in ("a", "b"):
        assert cluster.ended(name)[-1][0] == "Complete"
        assert until(lambda name=name: _conditions(cluster.workload(name)).get("Finished")) == ("True", "Succeeded")


def test_memory_and_processors_count_as_gpus_do(cluster: Access) -> None:
    queue = cluster.queue(gpus=8)
    asked = {"cpu": "1500m", "memory": "600Gi"}
    for name in ("a", "b"):
        room = {"resources": {"requests": asked}}
        cluster.run(name, SLEEP, suspend=True, labels={QUEUE: queue}, container=room)
        _waits(cluster, "b") if name == "b" else until(lambda: not cluster.job("a").spec.suspend)
    usage = cluster.workload("a")["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]
    assert usage == {"cpu": "1500m", "memory": "600Gi"}
    assert f"for memory in flavor {queue}, 200Gi more needed" in _waits(cluster, "b")


def test_a_wrong_queue_name_is_accepted_and_only_the_workload_tells(cluster: Access) -> None:
    cluster.run("a", SLEEP, gpus=1, suspend=True, labels={QUEUE: "no-such-queue"})
    assert _waits(cluster, "a") == "LocalQueue no-such-queue doesn't exist"
    job = cluster.job("a")
    assert [(one.type, one.status) for one in job.status.conditions] == [("Suspended", "True")]
    assert "Warning" not in [event.type for event in cluster.core.list_namespaced_event(cluster.namespace).items]
    queue = cluster.queue(gpus=1)
    cluster.batch.patch_namespaced_job("a", cluster.namespace, {"metadata": {"labels": {QUEUE: queue}}})
    cluster.running("a")


def test_more_than_a_queue_can_ever_have_waits_for_ever(cluster: Access) -> None:
    queue = cluster.queue(gpus=2)
    cluster.run("a", SLEEP, gpus=3, suspend=True, labels={QUEUE: queue})
    assert "maximum capacity" in _waits(cluster, "a")


def test_a_job_that_is_not_suspended_is_held_all_the_same(cluster: Access) -> None:
    cluster.run("a", SLEEP, gpus=1, labels={QUEUE: "no-such-queue"})
    until(lambda: cluster.job("a").spec.suspend)
    _waits(cluster, "a")
    until(lambda: not cluster.pods("a"))


def test_a_higher_priority_preempts_and_the_preempted_job_runs_again_later(cluster: Access) -> None:
    queue, names = cluster.queue(gpus=1), cluster.priorities(low=10, high=1000)
    cluster.run("a", SLEEP, gpus=1, suspend=True, labels={QUEUE: queue, PRIORITY: names["low"]})
    (first,) = cluster.running("a")
    cluster.run("b", SLEEP, gpus=1, suspend=True, labels={QUEUE: queue, PRIORITY: names["high"]})
    cluster.running("b")
    conditions = _conditions(cluster.workload("a"))
    assert conditions["Evicted"] == ("True", "Preempted")
    assert conditions["Preempted"] == ("True", "InClusterQueue")
    assert conditions["Admitted"] == ("False", "NoReservation")
    assert conditions["Requeued"] == ("True", "Preempted")
    job = cluster.job("a")
    assert (job.spec.suspend, job.status.failed, job.status.start_time) == (True, None, None)
    until(lambda: not cluster.pods("a"))
    cluster.batch.delete_namespaced_job("b", cluster.namespace, propagation_policy="Background")
    (second,) = cluster.running("a")
    assert second.metadata.uid != first.metadata.uid
    assert _conditions(cluster.workload("a"))["Evicted"][0] == "False"


def test_equal_priorities_do_not_preempt(cluster: Access) -> None:
    queue = cluster.queue(gpus=1)
    cluster.run("a", SLEEP, gpus=1, suspend=True, labels={QUEUE: queue})
    cluster.running("a")
    cluster.run("b", SLEEP, gpus=1, suspend=True, labels={QUEUE: queue})
    assert "insufficient unused quota" in _waits(cluster, "b")
    assert cluster.running("a")


def test_equals_start_in_the_order_in_which_they_came(cluster: Access) -> None:
    queue = cluster.queue(gpus=1)
    names = ["first", "second", "third"]
    for name in names:
        cluster.run(name, "pass", gpus=1, suspend=True, labels={QUEUE: queue})
        # Kueue orders by whole seconds, and within one by uid.
        cluster.after(1.1)
    for name in names:
        assert cluster.ended(name)[-1][0] == "Complete"
    told = cluster.core.list_namespaced_event(cluster.namespace, field_selector="reason=SuccessfulCreate").items
    told.sort(key=lambda event: int(event.metadata.resource_version))
    assert [event.involved_object.name for event in told] == names


def test_a_new_priority_class_moves_a_waiting_job_ahead(cluster: Access) -> None:
    queue, names = cluster.queue(gpus=1, preempts=False), cluster.priorities(low=10, high=1000)
    for name in ("a", "b", "c"):
        cluster.run(name, SLEEP, gpus=1, suspend=True, labels={QUEUE: queue, PRIORITY: names["low"]})
        cluster.running("a")
    aged = {"metadata": {"labels": {PRIORITY: names["high"]}}}
    cluster.batch.patch_namespaced_job("c", cluster.namespace, aged)
    until(lambda: cluster.workload("c")["spec"]["priority"] == 1000)
    cluster.batch.delete_namespaced_job("a", cluster.namespace, propagation_policy="Background")
    cluster.running("c")
    assert cluster.pods("b") == []


def test_a_flavour_decides_where_pods_run_and_leaves_no_trace_when_evicted(cluster: Access) -> None:
    machines, names = cluster.machines, cluster.priorities(low=10, high=1000)
    machines.add_node("spot", gpus=8, labels={"capacity": "spot"})
    queue = cluster.queue(gpus=1)
    body = {"spec": {"nodeLabels": {"capacity": "spot"}}}
    cluster.custom.patch_cluster_custom_object("kueue.x-k8s.io", "v1beta2", "resourceflavors", queue, body)
    cluster.run("a", SLEEP, gpus=1, suspend=True, labels={QUEUE: queue, PRIORITY: names["low"]})
    assert cluster.running("a")[0].spec.node_name == "spot"
    assert cluster.job("a").spec.template.spec.node_selector == {"capacity": "spot"}
    cluster.run("b", SLEEP, gpus=1, suspend=True, labels={QUEUE: queue, PRIORITY: names["high"]})
    cluster.running("b")
    assert cluster.job("a").spec.template.spec.node_selector is None
