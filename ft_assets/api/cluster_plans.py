"""Each tier's share of a cluster: the tiers of the tenants file over the kinds of nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ft_assets.api.defaults import tenants_or_default
from ft_assets.settings.keys import SHARED
from ft_assets.settings.tenants import DEFAULT_TIER, TenantsFile, Tier
from ft_resources.kubernetes.flavours import Flavour, read_flavours, require_nodes
from ft_resources.kubernetes.kueue import preempts_for_more
from ft_resources.kubernetes.places import GpuType
from ft_resources.kubernetes.quota_plan import Promised, TierOfCluster, plan_quota
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.kubernetes.settings_file import read_settings
from ft_resources.kubernetes.tolerated import require_possible


@dataclass(frozen=True, kw_only=True, slots=True)
class TierPlan:
    """What a tier has of the GPUs of one kind of node.

    Args:
        gpu_type: as recipes name it; empty if the settings name none with these labels.
        reserved: what it has whenever it asks.
        when_all_ask: what it holds once all tenants of all tiers ask for more than there is; at most, where it is
            ``first_come``.
        first_come: whether what it holds of that beyond ``reserved`` depends on who came first: it preempts nobody for
            it. The lowest tiers then hold what it does not.
        most: what it holds at most, if no other tier asks.
        tenant_reserved, tenant_most: the same of one tenant.
    """

    gpu_type: str
    flavour: str
    capacity: int
    tier: str
    priority: str
    tenants: int
    reserved: int
    when_all_ask: int
    first_come: bool
    most: int
    tenant_reserved: int
    tenant_most: int


def cluster_plan(flavours: Path, *, nodes: Path | None = None, tenants: TenantsFile | None = None) -> list[TierPlan]:
    """Who gets how many GPUs when all ask at once: one entry for each kind of node with GPUs and each tier.

    Args:
        flavours: file of Kueue's flavours.
        nodes: what ``kubectl get nodes -o json`` printed; without it the flavours' capacity is believed.

    Raises UserError for tiers that promise more than there is, and for flavours that promise more than their nodes
    have.
    """
    settings, file = read_settings(), read_flavours(flavours)
    require_possible(settings, file)
    found = file.flavours
    if nodes:
        require_nodes(found, nodes)
    by_name = {each.name: each for each in found}
    counted = {GpuType().resource, *(each.resource for each in settings.gpu_types.values())}
    return [
        row
        for each in plan_quota(found, tiers_of_cluster(tenants_or_default(tenants)))
        if each.resource in counted and each.capacity
        for row in _rows(each, _gpu_type(settings, by_name[each.flavour], each.resource))
    ]


def tiers_of_cluster(tenants: TenantsFile) -> Sequence[TierOfCluster]:
    """The tiers of the tenants file, and ``default``, with their tenants; ``shared`` is one of them."""
    names = [*tenants.tiers, *({DEFAULT_TIER} - set(tenants.tiers))]
    return [
        TierOfCluster(
            name=name,
            priority=tier.priority,
            share=tier.cluster,
            tenants=tuple(each for each in names_on_cluster(tenants) if tenants.tier_name_of(each) == name),
        )
        for name in names
        for tier in (tenants.tiers.get(name, Tier()),)
    ]


def names_on_cluster(tenants: TenantsFile) -> list[str]:
    """The tenants with a namespace: those of the file, and ``shared``."""
    return sorted({*tenants.tenants, SHARED})


def _gpu_type(settings: KubernetesSettings, flavour: Flavour, resource: str) -> str:
    return next(
        (
            name
            for name, each in settings.gpu_types.items()
            if each.resource == resource and each.node_selector.items() <= flavour.labels.items()
        ),
        "",
    )


def _rows(promised: Promised, gpu_type: str) -> list[TierPlan]:
    holds = promised.when_all_ask()
    return [
        TierPlan(
            gpu_type=gpu_type,
            flavour=promised.flavour,
            capacity=promised.capacity,
            tier=name,
            priority=each.tier.priority,
            tenants=len(each.tier.tenants),
            reserved=each.reserved,
            when_all_ask=holds[name],
            first_come=not preempts_for_more(each.tier.priority) and holds[name] > each.reserved,
            most=int(min(each.most, promised.reachable(name))),
            tenant_reserved=each.tenant_reserved,
            tenant_most=int(min(each.tenant_most, promised.reachable(name))) if each.tier.tenants else 0,
        )
        for name, each in promised.tiers.items()
    ]
