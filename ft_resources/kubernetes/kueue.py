"""Kueue's objects for a platform, built from a few numbers: plain dicts for an administrator to apply.

https://kueue.sigs.k8s.io/docs/concepts/. The platform does no scheduling: Kueue decides from these objects which Job
runs next, borrows quota or is preempted.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ft_resources.kubernetes.ageing import PRIORITIES, RUNNING, all_classes
from ft_resources.kubernetes.flavours import Flavour
from ft_resources.kubernetes.kueue_api import API, GROUP
from ft_resources.kubernetes.kueue_nodes import checks_of, provisioning_of, topologies_of
from ft_resources.kubernetes.quota_plan import Promised, TierOfCluster, TierQuota, plan_quota
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.work import Priority

Manifest = dict[str, Any]
ROOT = "ft"
"""The Cohort of the whole platform."""


def platform_queues(
    settings: KubernetesSettings,
    flavours: Sequence[Flavour],
    tiers: Sequence[TierOfCluster],
    tenants: Sequence[str] | None = None,
    *,
    topologies: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[Manifest]:
    """Topologies, flavours with what provisions their nodes, priority classes (with ageing's), a Cohort for the
    platform and one below it for each tier, and for each of ``tenants`` (all of the tiers, if None) a ClusterQueue in
    its tier's Cohort with its LocalQueue.

    The platform's Cohort has what no tier reserves, a tier's what is reserved and no tenant's own. A tier takes back
    what it reserved whatever the priority of who borrowed it. Beyond that it borrows what is idle, and preempts
    borrowers of a lower priority. Jobs are admitted as a whole.

    Raises BadRecipe for tiers that promise more than there is.
    """
    promised = plan_quota(flavours, tiers)
    valued = [all_classes(priority, base) for priority, base in settings.priority_classes.items()]
    classes = [_priority_class(name, value) for each in valued for name, value in each.items()]
    queues = [
        (tenant, _cluster_queue(settings, promised, tier, tenant, checks_of(flavours)))
        for tier in tiers
        for tenant in tier.tenants
        if tenants is None or tenant in tenants
    ]
    return [
        *topologies_of(topologies),
        *(_flavour(each) for each in flavours),
        *provisioning_of(flavours, settings.queue_timeout_s),
        *classes,
        _cohort(ROOT, _groups(promised, lambda each: {"nominalQuota": f"{each.rest}{each.unit}"})),
        *(_tier_cohort(promised, tier) for tier in tiers),
        *(queue for _, queue in queues),
        *(_local(settings, tenant) for tenant, _ in queues),
    ]


def as_v1beta1(manifest: Manifest) -> Manifest:
    """A manifest as Kueue 0.13 and 0.14 read it. Only a ClusterQueue's cohort has another name there."""
    if manifest["apiVersion"] != API:
        return manifest
    spec = dict(manifest.get("spec", {}))
    if "cohortName" in spec:
        spec["cohort"] = spec.pop("cohortName")
    return {**manifest, "apiVersion": f"{GROUP}/v1beta1", **({"spec": spec} if spec else {})}


def _flavour(flavour: Flavour) -> Manifest:
    spec: Manifest = {"nodeLabels": flavour.labels}
    if flavour.taints:
        spec["nodeTaints"] = [taint.model_dump(exclude_none=True) for taint in flavour.taints]
    if flavour.topology:
        spec["topologyName"] = flavour.topology
    return {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": flavour.name}, "spec": spec}


def _priority_class(name: str, value: int) -> Manifest:
    return {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}


def _cohort(name: str, groups: list[Manifest], **spec: Any) -> Manifest:
    return {"apiVersion": API, "kind": "Cohort", "metadata": {"name": name}, "spec": {**spec, "resourceGroups": groups}}


def cohort_of(tier: str) -> str:
    """The Cohort of a tier."""
    return f"{ROOT}-tier-{tier}"


def _tier_cohort(promised: Sequence[Promised], tier: TierOfCluster) -> Manifest:
    def quota(each: Promised) -> Manifest:
        own = each.tiers[tier.name]
        return _limited(own, own.pool, borrowingLimit=own.borrow, lendingLimit=own.lend)

    weight = f"{tier.share.weight:g}"
    return _cohort(cohort_of(tier.name), _groups(promised, quota), parentName=ROOT, fairSharing={"weight": weight})


def _groups(promised: Sequence[Promised], quota: Callable[[Promised], Manifest]) -> list[Manifest]:
    """One group of resources, with the quota of each flavour: a node's GPUs, CPUs and memory go together."""
    flavours = dict[str, list[Manifest]]()
    for each in promised:
        flavours.setdefault(each.flavour, []).append({"name": each.resource, **quota(each)})
    covered = [each["name"] for each in next(iter(flavours.values()))]
    return [{"coveredResources": covered, "flavors": [{"name": n, "resources": r} for n, r in flavours.items()]}]


def _limited(quota: TierQuota, nominal: int, **limits: int | None) -> Manifest:
    said = {name: f"{amount}{quota.unit}" for name, amount in limits.items() if amount is not None}
    return {"nominalQuota": f"{nominal}{quota.unit}", **said}


def _cluster_queue(
    settings: KubernetesSettings, promised: Sequence[Promised], tier: TierOfCluster, tenant: str, checks: Manifest
) -> Manifest:
    def quota(each: Promised) -> Manifest:
        own = each.tiers[tier.name]
        return _limited(own, own.tenant_reserved, borrowingLimit=own.tenant_borrow)

    return {
        "apiVersion": API,
        "kind": "ClusterQueue",
        "metadata": {"name": f"ft-{tenant}"},
        "spec": {
            "cohortName": cohort_of(tier.name),
            "queueingStrategy": "BestEffortFIFO",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": settings.namespace_of(tenant)}},
            "preemption": {
                "withinClusterQueue": "LowerPriority",
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": _while_borrowing(tier.priority),
            },
            "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"},
            "resourceGroups": _groups(promised, quota),
            **checks,
        },
    }


def _while_borrowing(priority: Priority) -> Manifest:
    """Who preempts beyond what its tier reserved: work of the highest priority, and of the lowest what waited longest.

    If the middle one did too, each of its arrivals would preempt the newest borrower of the lowest: some gave way a
    hundred times in a simulated week (benchmarks/NOTES.md). Spared are what is nearly done, and work of the same
    priority that had waited longest itself.
    """
    if not preempts_for_more(priority):
        return {"policy": "Never"}
    return {"policy": "LowerPriority", "maxPriorityThreshold": all_classes(priority, "")[f"-{RUNNING}"]}


def preempts_for_more(priority: Priority) -> bool:
    """Whether work of a priority ever preempts for what is beyond the part that its tier reserved."""
    return PRIORITIES[priority] in (max(PRIORITIES.values()), min(PRIORITIES.values()))


def _local(settings: KubernetesSettings, tenant: str) -> Manifest:
    return {
        "apiVersion": API,
        "kind": "LocalQueue",
        "metadata": {"name": settings.queue_of(tenant) or "ft", "namespace": settings.namespace_of(tenant)},
        "spec": {"clusterQueue": f"ft-{tenant}"},
    }
