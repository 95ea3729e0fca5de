"""Everything that an administrator applies for tenants, from the settings and a list of flavours: plain manifests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ft_resources.kubernetes.kueue import Flavour, platform_queues
from ft_resources.kubernetes.names import MANAGED_BY, TENANT
from ft_resources.kubernetes.reach import JudgeReach
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.kubernetes.tenant_objects import tenant_objects

Manifest = dict[str, Any]
LAUNCHER_ROLE = "ft-launcher"
"""The ClusterRole of ``k8s/kustomize/base/rbac.yaml``."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Taint(_Strict):
    key: str = Field(min_length=1, description="The taint's key.")
    value: str | None = Field(None, description="The taint's value; null: none.")
    effect: str = Field("NoSchedule", description="The taint's effect.")


class _Flavour(_Strict):
    name: str = Field(pattern=r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", description="Name of the ResourceFlavor.")
    labels: dict[str, str] = Field(description="Labels of its nodes.")
    quota: dict[str, str] = Field(min_length=1, description="What one tenant has of it at once, by resource.")
    taints: list[_Taint] = Field(default_factory=list, description="Taints of its nodes.")
    topology: str | None = Field(None, description="Name of a Topology object; null: placement does not matter.")


class FlavoursFile(_Strict):
    """Kinds of nodes."""

    flavours: list[_Flavour] = Field(min_length=1, description="In the order in which Kueue tries them.")


def read_flavours(file: Path) -> list[Flavour]:
    """The flavours of a strict YAML list. Raises BadRecipe that names every mistake, and UserError where they differ
    in what they count: Kueue wants one set of resources for all."""
    from ft_assets.recipes.strict import read_strict
    from ft_resources.errors import BadRecipe

    remedy = "Write them as k8s/kustomize/base/flavours.yaml shows."
    found = read_strict(FlavoursFile, file, what="the flavours", remedy=remedy).flavours
    for flavour in found[1:]:
        if set(flavour.quota) != set(found[0].quota):
            raise BadRecipe(
                f"{flavour.name} has a quota of {sorted(flavour.quota)}, {found[0].name} of {sorted(found[0].quota)}",
                where=f"{file}: {flavour.name}.quota",
                remedy='Name the same resources in every flavour; "0" where there are none.',
            )
    return [
        Flavour(
            name=each.name,
            labels=each.labels,
            quota=each.quota,
            taints=[taint.model_dump(exclude_none=True) for taint in each.taints],
            topology=each.topology,
        )
        for each in found
    ]


def platform_objects(
    settings: KubernetesSettings,
    tenants: Sequence[str],
    flavours: Sequence[Flavour],
    *,
    judges: Mapping[str, JudgeReach] | None = None,
    account: str = "ft-control-plane",
    namespace: str = "",
) -> list[Manifest]:
    """Namespaces, accounts, policies and rights for each tenant, and Kueue's objects where the settings name a queue.

    Args:
        judges: by tenant, the judges that its evaluations may ask; of those that are not in it, none.
        account: the control plane's service account, in ``namespace``, which gets to launch in tenants' namespaces.
        namespace: of the control plane; where it is empty, as the settings say.
    """
    namespace = namespace or settings.control_namespace
    settings = settings.model_copy(update={"control_namespace": namespace})
    objects = [each for tenant in tenants for each in tenant_objects(settings, tenant, (judges or {}).get(tenant))]
    objects += [_may_launch(settings, tenant, account, namespace) for tenant in tenants]
    return objects + (platform_queues(settings, flavours, tenants) if settings.queue and flavours else [])


def _may_launch(settings: KubernetesSettings, tenant: str, account: str, namespace: str) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": LAUNCHER_ROLE,
            "namespace": settings.namespace_of(tenant),
            "labels": {"app.kubernetes.io/managed-by": MANAGED_BY, TENANT: tenant},
        },
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": LAUNCHER_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
