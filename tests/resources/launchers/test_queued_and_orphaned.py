"""On a cluster: why work waits, and what becomes of Jobs that nobody waits for."""

import time

import pytest
import yaml

from ft_assets.api.orphans import settle
from ft_resources.kubernetes.flavours import read_flavours
from ft_resources.kubernetes.kueue import platform_queues
from ft_resources.kubernetes.orphans import Orphan
from ft_resources.kubernetes.quota_plan import TierOfCluster
from ft_resources.kubernetes.shares import Share
from ft_resources.outcomes import Outcome
from tests.cluster.fixtures import until
from tests.k8s.chart import K8S
from tests.resources.launchers.conftest import OnCluster

pytestmark = pytest.mark.cluster


def test_a_wrong_queue_name_and_a_full_quota_are_told_apart(on_cluster: OnCluster) -> None:
    launcher, attempt = on_cluster.launched(on_cluster.work(gpus=1), queue="nowhere")
    until(lambda: launcher.why_waiting(attempt).reason == "queue_name")
    queue = on_cluster.access.queue(gpus=1)
    launcher, attempt = on_cluster.launched(on_cluster.work("a", gpus=1, held=1), queue=queue)
    until(lambda: launcher.why_waiting(attempt).reason == "running")
    _, second = on_cluster.launched(on_cluster.work("b", gpus=1), queue=queue)
    until(lambda: launcher.why_waiting(second).reason == "quota")
    _, third = on_cluster.launched(on_cluster.work("c", gpus=5), queue=queue)
    until(lambda: launcher.why_waiting(third).reason == "too_large")


def test_why_work_waits_and_its_class_are_read_of_an_older_kueue_too(on_cluster: OnCluster) -> None:
    access = on_cluster.access
    server = access.machines.server
    for base, value in (("ft-batch", 2000), ("ft-batch-age-3", 3050)):
        access.make("workloadpriorityclasses", "WorkloadPriorityClass", base, {"value": value})
    queue = access.queue(gpus=1)
    server.kueue = ("v1beta1",)
    launcher, attempt = on_cluster.launched(on_cluster.work(gpus=1, held=1), queue=queue)
    until(lambda: launcher.why_waiting(attempt).reason == "running")
    launcher, second = on_cluster.launched(on_cluster.work("b", gpus=1), queue=queue)
    until(lambda: launcher.why_waiting(second).reason == "quota")
    later = on_cluster.launcher(queue=queue, clock=lambda: time.time() + 13 * 3600)
    assert "1 given another priority class" in later.queue.age(on_cluster.store)[0]
    asked = {line.split("/")[3] for _, line in server.requests if "kueue.x-k8s.io/" in line}
    assert "v1beta1" in asked


def test_a_cluster_whose_kueue_is_gone_says_that_kueue_does_not_answer(on_cluster: OnCluster) -> None:
    queue = on_cluster.access.queue(gpus=1)
    launcher, attempt = on_cluster.launched(on_cluster.work(gpus=2), queue=queue)
    on_cluster.access.machines.server.kueue = ()
    assert launcher.why_waiting(attempt).reason == "kueue_silent"
    assert launcher.queue is not None
    assert "0 given another" in launcher.queue.age(on_cluster.store)[0]


def test_a_gpu_of_any_type_is_admitted_on_the_documented_taints_and_flavours(on_cluster: OnCluster) -> None:
    base, access = K8S / "kustomize" / "base", on_cluster.access
    nodes, tenant = access.machines, on_cluster.tenant
    nodes.remove_node("n1")
    flavours = read_flavours(base / "flavours.yaml").flavours
    for each in flavours:
        taints = [taint.model_dump(exclude_none=True) for taint in each.taints]
        nodes.add_node(each.name, gpus=int(each.capacity["nvidia.com/gpu"]), labels=each.labels, taints=taints)
    documented = yaml.safe_load((base / "kubernetes.yaml").read_text())
    kinds = {name: documented[name] for name in ("gpu_types", "spot_nodes", "on_demand")}
    settings = on_cluster.settings(queue="ft-{tenant}", **kinds)
    tier = TierOfCluster(name="default", priority="batch", share=Share(), tenants=(tenant,))
    for made in platform_queues(settings, flavours, [tier]):
        plural = made["kind"].lower() + ("es" if made["kind"].endswith("s") else "s")
        where = [plural] if "namespace" not in made["metadata"] else [made["metadata"]["namespace"], plural]
        create = (
            access.custom.create_cluster_custom_object
            if len(where) == 1
            else (access.custom.create_namespaced_custom_object)
        )
        create(*made["apiVersion"].split("/"), *where, made)
    launcher, attempt = on_cluster.launched(on_cluster.work(gpus=1), queue="ft-{tenant}", **kinds)
    until(lambda: launcher.why_waiting(attempt).reason in ("running", "ended"))
    assert on_cluster.pods(attempt)[0]["spec"]["nodeName"] == "h100-on-demand"
    # As before: nothing said which taints a GPU of any type has.
    launcher, second = on_cluster.launched(
        on_cluster.work("b", gpus=1), queue="ft-{tenant}", **kinds | {"gpu_types": {}}
    )
    until(lambda: launcher.why_waiting(second).reason == "taint")


def test_a_gpu_that_no_node_has_is_unschedulable(on_cluster: OnCluster) -> None:
    launcher, attempt = on_cluster.launched(on_cluster.work(gpus=64))
    until(lambda: launcher.why_waiting(attempt).reason == "unschedulable")


def test_a_job_whose_attempt_is_over_is_removed_and_billed_as_it_ended(on_cluster: OnCluster) -> None:
    """Its worker has said that it is done and hangs: nobody but the sensor looks at it any more."""
    request = on_cluster.work(held=1)
    launcher, attempt = on_cluster.launched(request)
    on_cluster.place().begun(request)
    attempt.record_ending(Outcome.DONE)
    settle(on_cluster.store, launcher, launcher, Orphan(address=str(attempt.address), attempt=1, deed="end"))
    place = attempt.place()
    assert place is not None
    assert place["refund"] == "none"
    assert place["started_at"] <= place["ended_at"]
    until(lambda: on_cluster.job(attempt) is None and not on_cluster.pods(attempt))
