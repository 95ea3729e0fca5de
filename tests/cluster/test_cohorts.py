"""Tiers on a cluster: what a tenant of one may take from another's, by the objects that the platform generates."""

import time
import uuid
from typing import Any

import pytest

from tests.cluster.fixtures import Access, until
from tests.cluster.kueue import PRIORITY, QUEUE
from tests.cluster.objects import KUEUE

EVICTED = "EvictedDueToPreempted"
SLEEP = "import time; time.sleep(600)"


class Tiers:
    """A platform in names of its own, with a queue for each tenant. Half of its GPUs are reserved for premium."""

    def __init__(self, cluster: Access, gpus: int = 4) -> None:
        from ft_resources.kubernetes.flavours import Flavour
        from ft_resources.kubernetes.kueue import platform_queues
        from ft_resources.kubernetes.quota_plan import TierOfCluster
        from ft_resources.kubernetes.shares import Share
        from tests.resources.kubernetes.specs import settings_of

        self.cluster, self.own = cluster, uuid.uuid4().hex[:6]
        capacity = {"cpu": "1000", "memory": "1000Gi", "nvidia.com/gpu": str(gpus)}
        tiers = [
            TierOfCluster(name="premium", priority="production", share=Share(reserved=0.5), tenants=("rich",)),
            TierOfCluster(name="standard", priority="batch", share=Share(reserved=0.125), tenants=("middle",)),
            TierOfCluster(name="free", priority="interactive", share=Share(), tenants=("poor",)),
        ]
        settings = settings_of(queue="ft-{tenant}")
        for made in platform_queues(settings, [Flavour(name="any", labels={}, capacity=capacity)], tiers):
            self._apply(made)

    def _apply(self, made: dict[str, Any]) -> None:
        own, spec = self.own, made.get("spec", {})
        name = f"{made['metadata']['name']}-{own}"
        for reference in ("cohortName", "parentName", "clusterQueue"):
            if reference in spec:
                spec[reference] += f"-{own}"
        for group in spec.get("resourceGroups", ()):
            group["flavors"][0]["name"] += f"-{own}"
        if made["kind"] == "LocalQueue":
            body = {**made, "metadata": {"name": name}}
            namespaced = self.cluster.custom.create_namespaced_custom_object
            namespaced(*KUEUE.split("/"), self.cluster.namespace, "localqueues", body)
            return
        if made["kind"] == "ClusterQueue":
            spec["namespaceSelector"] = {}
        plural = made["kind"].lower() + ("es" if made["kind"].endswith("s") else "s")
        whole = {key: value for key, value in made.items() if key not in ("metadata", "apiVersion", "kind")}
        self.cluster.make(plural, made["kind"], name, whole)

    def run(self, name: str, tenant: str, priority: str, gpus: int, code: str = SLEEP) -> None:
        labels = {QUEUE: f"ft-{tenant}-{self.own}", PRIORITY: f"ft-{priority}-{self.own}"}
        self.cluster.run(name, code, gpus=gpus, suspend=True, labels=labels)

    def why(self, name: str) -> str:
        found = self.cluster.workload(name).get("status", {}).get("conditions", [])
        return next((one["reason"] for one in found if (one["type"], one["status"]) == ("Preempted", "True")), "")


def test_free_work_holds_the_whole_cluster_until_premium_takes_back_what_it_reserved(cluster: Access) -> None:
    tiers = Tiers(cluster)
    for name in ("a", "b"):
        tiers.run(name, "poor", "interactive", gpus=2)
        cluster.running(name)
    tiers.run("premium", "rich", "production", gpus=2)
    cluster.running("premium")
    assert until(lambda: tiers.why("b")) == "InCohortReclamation"
    assert cluster.running("a")


def test_premium_beyond_what_it_reserved_takes_from_free_and_not_from_work_that_is_nearly_done(
    cluster: Access,
) -> None:
    tiers = Tiers(cluster)
    tiers.run("done", "poor", "interactive-done", gpus=1)
    tiers.run("free", "poor", "interactive-running", gpus=1)
    tiers.run("first", "rich", "production-running", gpus=2)
    for name in ("done", "free", "first"):
        cluster.running(name)
    tiers.run("second", "rich", "production", gpus=1)
    cluster.running("second")
    assert until(lambda: tiers.why("free")) == "InCohortReclaimWhileBorrowing"
    tiers.run("third", "rich", "production", gpus=1)
    until(lambda: cluster.workload("third").get("status", {}).get("conditions"))
    assert (tiers.why("done"), tiers.why("first")) == ("", "")
    assert cluster.running("done")


@pytest.mark.long
def test_a_hundredth_of_the_simulated_month_ends_and_premium_gives_way_only_to_what_others_reserved(
    cluster: Access,
) -> None:
    """Five days with 5 trainings each instead of 500, on 8 GPUs, at the same load; eight hours are a second."""
    from benchmarks.month_trace import HOUR_S, draw_month

    who = {"premium": ("rich", "production"), "standard": ("middle", "batch"), "free": ("poor", "interactive")}
    names = {tier: [tenant] for tier, (tenant, _) in who.items()}
    trace = draw_month(names, gpus={False: 4, True: 4}, load=0.85, per_day=5.0, days=5.0, seed=3)
    tiers, second, began = Tiers(cluster, gpus=8), 8 * HOUR_S, time.monotonic()
    for each in trace:
        time.sleep(max(0.0, each.at / second - (time.monotonic() - began)))
        code = f"import time; time.sleep({each.seconds / second:.2f})"
        tiers.run(each.key, *who[each.tier], gpus=each.gpus, code=code)
    assert {each.key: cluster.ended(each.key)[-1][0] for each in trace} == {each.key: "Complete" for each in trace}
    gave_way = {
        each.key: [why for reason, why in cluster.events(_workload(cluster, each.key)) if reason == EVICTED]
        for each in trace
    }
    assert any(gave_way[each.key] for each in trace if each.tier != "premium")
    assert not any("while borrowing" in why for each in trace if each.tier == "premium" for why in gave_way[each.key])


def _workload(cluster: Access, job: str) -> str:
    return str(cluster.workload(job)["metadata"]["name"])
