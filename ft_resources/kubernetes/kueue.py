"""Kueue's objects for a platform, built from a few numbers: plain dicts for an administrator to apply.

https://kueue.sigs.k8s.io/docs/concepts/. The platform does no scheduling: Kueue decides from these objects which Job
runs next, borrows quota or is preempted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from ft_resources.errors import BadRecipe
from ft_resources.kubernetes.ageing import all_classes
from ft_resources.kubernetes.kueue_api import GROUP, VERSIONS
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.strict import read_strict
from ft_resources.strict_model import StrictModel

Manifest = dict[str, Any]
API = f"{GROUP}/{VERSIONS[0]}"


class Taint(StrictModel):
    """A taint of nodes, as Kubernetes writes it."""

    key: str = Field(min_length=1, description="The taint's key.")
    value: str | None = Field(None, description="The taint's value; null: none.")
    effect: str = Field("NoSchedule", description="The taint's effect.")


class Flavour(StrictModel):
    """A kind of node: a GPU type, spot or on demand."""

    name: str = Field(pattern=r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", description="Name of the ResourceFlavor.")
    labels: dict[str, str] = Field(description="Labels of its nodes.")
    quota: dict[str, str] = Field(min_length=1, description="A tenant's quota of this flavour, by resource.")
    taints: list[Taint] = Field(default_factory=list, description="Taints of its nodes.")
    topology: str | None = Field(None, description="Name of a Topology object; null: placement does not matter.")


class FlavoursFile(StrictModel):
    """Kinds of nodes."""

    flavours: list[Flavour] = Field(min_length=1, description="In the order in which Kueue tries them.")


def read_flavours(file: Path) -> list[Flavour]:
    """The flavours of a strict YAML list. Raises BadRecipe, which names every mistake, also where they count different
    resources: Kueue requires one set for all."""
    remedy = "Write them as k8s/kustomize/base/flavours.yaml shows."
    found = read_strict(FlavoursFile, file, what="the flavours", remedy=remedy).flavours
    for flavour in found[1:]:
        if set(flavour.quota) != set(found[0].quota):
            raise BadRecipe(
                f"{flavour.name} has a quota of {sorted(flavour.quota)}, {found[0].name} of {sorted(found[0].quota)}",
                where=f"{file}: {flavour.name}.quota",
                remedy='Name the same resources in every flavour; write "0" for a resource that a flavour lacks.',
            )
    return found


def platform_queues(
    settings: KubernetesSettings, flavours: Sequence[Flavour], tenants: Sequence[str], *, cohort: str = "ft"
) -> list[Manifest]:
    """Flavours, priority classes (with ageing's), and for each tenant a ClusterQueue in one cohort with its LocalQueue.

    A tenant can always use its nominal quota, borrows what others in the cohort leave idle, and reclaims its own by
    preempting borrowers. Within a queue, higher priority preempts lower. Jobs are admitted as a whole.
    """
    valued = [all_classes(priority, base) for priority, base in settings.priority_classes.items()]
    classes = [_priority_class(name, value) for each in valued for name, value in each.items()]
    queues = [_cluster_queue(settings, flavours, tenant, cohort) for tenant in tenants]
    return [*(_flavour(each) for each in flavours), *classes, *queues, *(_local(settings, each) for each in tenants)]


def _flavour(flavour: Flavour) -> Manifest:
    spec: Manifest = {"nodeLabels": flavour.labels}
    if flavour.taints:
        spec["nodeTaints"] = [taint.model_dump(exclude_none=True) for taint in flavour.taints]
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
            "cohortName": cohort,
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
