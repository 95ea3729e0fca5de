"""Queues and priority classes: as reviewed."""

import json
from pathlib import Path
from typing import Any

from ft_resources.kubernetes.flavours import Flavour
from ft_resources.kubernetes.kueue import as_v1beta1, platform_queues
from ft_resources.kubernetes.quota_plan import TierOfCluster
from ft_resources.kubernetes.shares import Share
from tests.cluster.kueue_versions import kept
from tests.resources.kubernetes.specs import settings_of

CAPACITY = {"cpu": "64", "memory": "768Gi", "nvidia.com/gpu": "8"}
FLAVOURS = [
    Flavour(
        name="h100-on-demand", labels={"gpu": "h100", "capacity": "on-demand"}, capacity=CAPACITY, topology="racks"
    ),
    Flavour(
        name="h100-spot",
        labels={"gpu": "h100", "capacity": "spot"},
        capacity=CAPACITY,
        taints=[{"key": "spot", "value": "true", "effect": "NoSchedule"}],
    ),
]
TIERS = [
    TierOfCluster(
        name="premium",
        priority="production",
        share=Share(reserved=0.5, lend=0.25, weight=4, tenant_reserved=0.125),
        tenants=("acme", "initech"),
    ),
    TierOfCluster(
        name="free", priority="interactive", share=Share(borrow=0.5, tenant_borrow=0.25), tenants=("globex",)
    ),
]
GOLDEN = Path(__file__).parent


def queues(**chosen: Any) -> list[dict[str, Any]]:
    return platform_queues(settings_of(queue="ft-{tenant}"), FLAVOURS, TIERS, **chosen)


def gpus(item: dict[str, Any], flavour: str = "h100-spot") -> dict[str, str]:
    (group,) = item["spec"]["resourceGroups"]
    (own,) = [each for each in group["flavors"] if each["name"] == flavour]
    (found,) = [each for each in own["resources"] if each["name"] == "nvidia.com/gpu"]
    return {name: value for name, value in found.items() if name != "name"}


def named(kind: str, found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in found if each["kind"] == kind}


def test_the_queues_of_a_platform_are_as_reviewed() -> None:
    assert queues() == json.loads((GOLDEN / "queues.json").read_text())


def test_a_tiers_pool_is_what_it_reserved_less_what_its_tenants_have_themselves() -> None:
    cohorts, own = named("Cohort", queues()), named("ClusterQueue", queues())
    assert gpus(cohorts["ft"]) == {"nominalQuota": "4"}
    assert gpus(cohorts["ft-tier-premium"]) == {"nominalQuota": "2", "lendingLimit": "2"}
    assert gpus(cohorts["ft-tier-free"]) == {"nominalQuota": "0", "borrowingLimit": "4"}
    assert gpus(own["ft-acme"]) == gpus(own["ft-initech"]) == {"nominalQuota": "1"}
    assert gpus(own["ft-globex"]) == {"nominalQuota": "0", "borrowingLimit": "2"}


def test_all_that_is_promised_is_what_there_is() -> None:
    said = [gpus(each) for kind in ("Cohort", "ClusterQueue") for each in named(kind, queues()).values()]
    assert sum(int(each["nominalQuota"]) for each in said) == 8


def test_tenants_hang_below_their_tier_and_tiers_below_the_platform() -> None:
    cohorts, own = named("Cohort", queues()), named("ClusterQueue", queues())
    assert {name: each["spec"].get("parentName") for name, each in cohorts.items()} == {
        "ft": None,
        "ft-tier-premium": "ft",
        "ft-tier-free": "ft",
    }
    assert own["ft-acme"]["spec"]["cohortName"] == "ft-tier-premium"
    assert own["ft-globex"]["spec"]["cohortName"] == "ft-tier-free"
    assert cohorts["ft-tier-premium"]["spec"]["fairSharing"] == {"weight": "4"}


def test_one_tenants_queue_is_printed_with_all_cohorts_because_their_pools_depend_on_it() -> None:
    found = queues(tenants=["initech"])
    assert [*named("ClusterQueue", found)] == ["ft-initech"]
    assert named("Cohort", found) == named("Cohort", queues())


def test_borrowing_preempts_neither_what_is_nearly_done_nor_what_waited_longest() -> None:
    found = named("ClusterQueue", queues())
    classes = {name: each["value"] for name, each in named("WorkloadPriorityClass", queues()).items()}
    for queue, base in (("ft-acme", "ft-production"), ("ft-globex", "ft-interactive")):
        most = found[queue]["spec"]["preemption"]["borrowWithinCohort"]["maxPriorityThreshold"]
        assert classes[f"{base}-running"] <= most < min(classes[f"{base}-age-3"], classes[f"{base}-done"])
    assert found["ft-acme"]["spec"]["preemption"]["borrowWithinCohort"]["maxPriorityThreshold"] > classes["ft-batch"]


def test_the_middle_priority_preempts_only_for_what_its_tier_reserved() -> None:
    tiers = [TierOfCluster(name="standard", priority="batch", share=Share(reserved=0.25), tenants=("acme",))]
    made = platform_queues(settings_of(queue="ft-{tenant}"), FLAVOURS, tiers)
    policies = named("ClusterQueue", made)["ft-acme"]["spec"]["preemption"]
    assert (policies["borrowWithinCohort"], policies["reclaimWithinCohort"]) == ({"policy": "Never"}, "Any")


def test_an_older_kueue_is_told_the_same_in_its_words() -> None:
    old = [as_v1beta1(each) for each in queues()]
    assert {each["apiVersion"] for each in old} == {"kueue.x-k8s.io/v1beta1"}
    assert named("ClusterQueue", old)["ft-acme"]["spec"]["cohort"] == "ft-tier-premium"
    assert [kept(each) for each in old] == queues()
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"cohortName": "x"}}
    assert as_v1beta1(service) == service


def test_every_tenant_has_a_queue_of_its_own_that_only_its_namespace_may_use() -> None:
    found = named("ClusterQueue", queues())
    for tenant in ("acme", "globex"):
        selector = found[f"ft-{tenant}"]["spec"]["namespaceSelector"]["matchLabels"]
        assert selector == {"kubernetes.io/metadata.name": f"ft-{tenant}"}
