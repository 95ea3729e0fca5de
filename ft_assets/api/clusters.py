"""Objects of a cluster and of its bucket, for an administrator to apply."""

import os
from pathlib import Path
from typing import Any, Literal

from ft_assets.api.cluster_plans import names_on_cluster, tiers_of_cluster
from ft_assets.api.defaults import tenants_or_default
from ft_assets.settings.keys import SHARED, check_tenant
from ft_assets.settings.tenants import TenantsFile
from ft_resources.environment import default_store_url
from ft_resources.errors import NoStore, UserError
from ft_resources.kubernetes.egress import JudgeReach
from ft_resources.kubernetes.flavours import read_flavours
from ft_resources.kubernetes.kueue import as_v1beta1
from ft_resources.kubernetes.platform import platform_objects
from ft_resources.kubernetes.s3_policy import role_policy
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.kubernetes.settings_file import read_settings
from ft_resources.kubernetes.tolerated import require_possible
from ft_resources.kubernetes.warm import warm_objects
from ft_resources.store_layout import Layout
from ft_resources.store_marker import open_store
from ft_resources.strict import nearest


def cluster_manifests(
    tenant: str = "",
    *,
    flavours: Path | None = None,
    namespace: str = "",
    account: str = "ft-control-plane",
    kueue: Literal["v1beta2", "v1beta1"] = "v1beta2",
    tenants: TenantsFile | None = None,
    settings: KubernetesSettings | None = None,
) -> list[dict[str, Any]]:
    """Namespaces, accounts, network policies, rights and queues of a tenant; or of all tenants and ``shared``, with the
    pods that keep nodes warm.

    Args:
        flavours: file of Kueue's flavours; without it there are no queues.
        namespace: of the control plane; that of the settings in ``FT_KUBERNETES`` where not given.
        account: service account of the control plane.
        kueue: version of Kueue's API.
        settings: those that ``FT_KUBERNETES`` names where not given.

    Raises UserError for a tenant that the tenants file does not name, for files that cannot be read, for a flavour
    that no Job could run on, for tiers that promise more than there is, and for bases to keep warm from a store that
    pods cannot reach; StoreUnavailable, as such a store is asked for its layout.
    """
    settings, tenants = settings or read_settings(), tenants_or_default(tenants)
    known = names_on_cluster(tenants)
    if tenant and tenant not in known:
        raise UserError(
            f"there is no tenant {tenant!r}: {nearest(tenant, known)}",
            where="FT_TENANTS",
            remedy="Add it to the tenants file first, with its tier and quota.",
        )
    chosen = [tenant] if tenant else known
    judges = {
        name: JudgeReach(
            public=any(not host.private for host in tenants.judge_hosts_of(name)),
            private=any(host.private for host in tenants.judge_hosts_of(name)),
        )
        for name in chosen
        if name != SHARED
    }
    found = read_flavours(flavours) if flavours else None
    if found is not None:
        require_possible(settings, found)
    objects = platform_objects(
        settings, chosen, found, tiers_of_cluster(tenants), judges=judges, account=account, namespace=namespace
    )
    if SHARED in chosen:
        objects += _warm_objects(settings)
    return objects if kueue == "v1beta2" else [as_v1beta1(each) for each in objects]


def _warm_objects(settings: KubernetesSettings) -> list[dict[str, Any]]:
    """What keeps nodes warm; pods that fetch bases are told where the store is, and where its tenants' data lie."""
    if not settings.keeps_bases:
        return warm_objects(settings, "", Layout.BELOW)
    url = default_store_url()
    if "://" not in url:
        raise UserError(
            f"pods that keep bases warm cannot read {url}, which is a folder of this machine",
            where="FT_STORE",
            remedy="Set it to the store's URL, such as s3://bucket/root.",
        )
    return warm_objects(settings, url, _layout(url))


def bucket_policy(tenant: str) -> dict[str, Any]:
    """What the tenant's role may do in the bucket of ``FT_STORE``, as an IAM policy; with the key of KMS that the
    settings in ``FT_KUBERNETES`` name. Raises UserError where ``FT_STORE`` is not an S3 bucket; StoreUnavailable, as
    the store's marker says where its tenants' data lie."""
    url = default_store_url()
    if not url.startswith("s3://"):
        raise UserError(
            f"{url} is not an S3 bucket",
            where="FT_STORE",
            remedy="Set it to the store's URL, such as s3://bucket/root.",
        )
    identity = read_settings().identity if "FT_KUBERNETES" in os.environ else None
    tenant, kms_key = check_tenant(tenant, "tenant name"), identity.kms_key if identity else None
    return role_policy(url, _layout(url), tenant, kms_key)


def _layout(url: str) -> Layout:
    """The layout of the store at ``url``, or the one that it will have once it is created."""
    try:
        return open_store(url).layout
    except NoStore:
        return Layout.BELOW
