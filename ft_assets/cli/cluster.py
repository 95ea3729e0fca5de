"""``ft cluster``: what an administrator applies to a cluster, printed from the settings and the tenants file."""

from pathlib import Path
from typing import Annotated

import typer

from ft_assets.cli.door import api

app = typer.Typer(
    no_args_is_help=True, help="Print the objects that a cluster and its bucket need, for an administrator to apply."
)


@app.command()
def manifests(
    tenant: Annotated[
        str, typer.Argument(help="Name of a tenant. Default: all tenants of the tenants file, and `shared`.")
    ] = "",
    flavours: Annotated[
        Path | None, typer.Option(help="File of Kueue's flavours. Without it no queues are printed.")
    ] = None,
    namespace: Annotated[
        str, typer.Option(help="Namespace of the control plane. Default: the one in the settings.")
    ] = "",
    account: Annotated[str, typer.Option(help="Service account of the control plane.")] = "ft-control-plane",
) -> None:
    """Print namespaces, accounts, network policies, rights and queues as YAML, for `kubectl apply -f -`."""
    import yaml

    objects = api.cluster_manifests(tenant, flavours=flavours, namespace=namespace, account=account)
    typer.echo(yaml.safe_dump_all(objects, sort_keys=False), nl=False)


@app.command()
def policy(
    tenant: Annotated[str, typer.Argument(help="Name of a tenant, or `shared`.")],
) -> None:
    """Print the IAM policy of a tenant's role for the bucket of FT_STORE. It covers the KMS key, if the settings in
    FT_KUBERNETES name one."""
    from ft_assets.cli.output import print_json

    print_json(api.bucket_policy(tenant))
