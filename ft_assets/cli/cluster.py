"""``ft cluster``: what an administrator applies to a cluster, printed from the settings and the tenants file."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Objects of a cluster and of its bucket, for an administrator to apply.")


@app.command()
def manifests(
    tenant: Annotated[str, typer.Argument(help="Name of a tenant; all of the tenants file, and `shared`.")] = "",
    flavours: Annotated[Path | None, typer.Option(help="Kueue's flavours; without them no queues are printed.")] = None,
    namespace: Annotated[
        str, typer.Option(help="Namespace of the control plane; that of the settings if not given.")
    ] = "",
    account: Annotated[str, typer.Option(help="Service account of the control plane.")] = "ft-control-plane",
) -> None:
    """Print namespaces, accounts, network policies, rights and queues as YAML, for `kubectl apply -f -`."""
    import yaml

    from ft_assets.tenants import load_tenants
    from ft_resources.kubernetes.platform import platform_objects, read_flavours
    from ft_resources.kubernetes.reach import JudgeReach
    from ft_resources.launchers.choice import read_settings

    settings, tenants = read_settings(), load_tenants()
    known = sorted({*tenants.tenants, _SHARED})
    found = read_flavours(flavours) if flavours else []
    chosen = [_known(tenant, known)] if tenant else known
    judges = {
        name: JudgeReach(
            public=any(not host.private for host in tenants.judge_hosts_of(name)),
            private=any(host.private for host in tenants.judge_hosts_of(name)),
        )
        for name in chosen
        if name != _SHARED
    }
    objects = platform_objects(settings, chosen, found, judges=judges, account=account, namespace=namespace)
    typer.echo(yaml.safe_dump_all(objects, sort_keys=False), nl=False)


@app.command()
def policy(
    tenant: Annotated[str, typer.Argument(help="Name of a tenant, or `shared`.")],
) -> None:
    """Print what the tenant's role may do in the bucket of FT_STORE, as an IAM policy; with the key of KMS that the
    settings in FT_KUBERNETES name."""
    import json
    import os

    from ft_assets.keys import check_part
    from ft_resources.dagster_resources import default_store_url
    from ft_resources.errors import UserError
    from ft_resources.kubernetes.s3_policy import role_policy
    from ft_resources.launchers.choice import read_settings

    url = default_store_url()
    if not url.startswith("s3://"):
        raise UserError(
            f"{url} is no bucket of S3", where="FT_STORE", remedy="Set it to the store's URL, such as s3://bucket/root."
        )
    identity = read_settings().identity if "FT_KUBERNETES" in os.environ else None
    kms_key = identity.kms_key if identity else None
    typer.echo(json.dumps(role_policy(url, check_part(tenant, "tenant name"), kms_key), indent=2))


_SHARED = "shared"


def _known(tenant: str, known: list[str]) -> str:
    from ft_assets.recipes.strict import nearest
    from ft_resources.errors import UserError

    if tenant not in known:
        raise UserError(
            f"there is no tenant {tenant!r}: {nearest(tenant, known)}",
            where="FT_TENANTS",
            remedy="Add it to the tenants file first, so that its tier and quota are said.",
        )
    return tenant
