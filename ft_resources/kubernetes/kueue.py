"""Kueue's objects for a platform, built from a few numbers: plain dicts for an administrator to apply.

https://kueue.sigs.k8s.io/docs/concepts/. The platform schedules nothing itself: who runs next, who borrows and who is
preempted is Kueue's to decide, by these objects.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ft_resources.kubernetes.ageing import all_classes
from ft_resources.kubernetes.settings import KubernetesSettings

Manifest = dict[str, Any]
API = "kueue.x-k8s.io/v1beta1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Flavour:
    """A kind of node: a GPU type, spot or on demand.

    Args:
        labels: of its nodes; a pod's node selector decides which flavours do.
        quota: nominal amounts of each resource for one tenant, such as ``{"nvidia.com/gpu": "8"}``.
        taints: of its nodes, as Kubernetes writes them.
        topology: name of a Topology object, for topology-aware placement.
    """

    name: str
    labels: Mapping[str, str]
    quota: Mapping[str, str]
    taints: Sequence[Mapping[str, str]] = field(default_factory=tuple)
    topology: str | None = None


def platform_queues(
    settings: KubernetesSettings, flavours: Sequence[Flavour], tenants: Sequence[str], *, cohort: str = "ft"
) -> list[Manifest]:
    """Flavours, priority classes (with ageing's), and for each tenant a ClusterQueue in one cohort with its LocalQueue.

    A tenant has its nominal quota at once and borrows what others of the cohort leave idle; it gets back its own by
    preempting who borrowed. Within a tenant's queue a higher priority preempts a lower one. Jobs are admitted whole.
    """
    valued = [all_classes(priority, base) for priority, base in settings.priority_classes.items()]
    classes = [_priority_class(name, value) for each in valued for name, value in each.items()]
    queues = [_cluster_queue(settings, flavours, tenant, cohort) for tenant in tenants]
    return [*(_flavour(each) for each in flavours), *classes, *queues, *(_local(settings, each) for each in tenants)]


def _flavour(flavour: Flavour) -> Manifest:
    spec: Manifest = {"nodeLabels": dict(flavour.labels)}
    if flavour.taints:
        spec["nodeTaints"] = [dict(taint) for taint in flavour.taints]
    if flavour.topology:
        spec["topologyName"] = flavour.topology
    return {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": flavour.name}, "spec": spec}


def _priority_class(name: str, value: int) -> Manifest:
    return {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}


def _cluster_queue(settings: KubernetesSettings, flavours: Sequence[Flavour], tenant: str, cohort: str) -> Manifest:
    resources = list(flavours[0].quota)
    groups = [
        {
            "coveredResources": resources,
            "flavors": [
                {
                    "name": flavour.name,
                    "resources": [{"name": name, "nominalQuota": flavour.quota[name]} for name in resources],
                }
                for flavour in flavours
            ],
        }
    ]
    return {
        "apiVersion": API,
        "kind": "ClusterQueue",
        "metadata": {"name": f"ft-{tenant}"},
        "spec": {
            "cohort": cohort,
            "queueingStrategy": "BestEffortFIFO",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": settings.namespace_of(tenant)}},
            "preemption": {
                "withinClusterQueue": "LowerPriority",
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "Never"},
            },
            "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"},
            "resourceGroups": groups,
        },
    }


def _local(settings: KubernetesSettings, tenant: str) -> Manifest:
    return {
        "apiVersion": API,
        "kind": "LocalQueue",
        "metadata": {"name": settings.queue_of(tenant) or "ft", "namespace": settings.namespace_of(tenant)},
        "spec": {"clusterQueue": f"ft-{tenant}"},
    }
