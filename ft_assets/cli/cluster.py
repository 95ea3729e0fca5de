"""``ft cluster``: what an administrator applies to a cluster, printed from the settings and the tenants file."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ft_assets.cli.door import api

if TYPE_CHECKING:
    from ft_assets.api import TierPlan

app = typer.Typer(no_args_is_help=True, help="Kubernetes objects and bucket policies for an administrator.")


@app.command()
def manifests(
    tenant: Annotated[str, typer.Argument(help="Tenant. Default: all tenants of the tenants file, and `shared`.")] = "",
    flavours: Annotated[
        Path | None, typer.Option(help="File with Kueue's flavours. Default: no queues are printed.")
    ] = None,
    namespace: Annotated[
        str, typer.Option(help="Namespace of the control plane. Default: the one in the settings.")
    ] = "",
    account: Annotated[str, typer.Option(help="Service account of the control plane.")] = "ft-control-plane",
    kueue: Annotated[
        Literal["v1beta2", "v1beta1"], typer.Option(help="Version of Kueue's API; v1beta1 for Kueue 0.13 and 0.14.")
    ] = "v1beta2",
) -> None:
    """Print namespaces, service accounts, network policies, RBAC and queues as YAML for `kubectl apply -f -`."""
    import yaml

    objects = api.cluster_manifests(tenant, flavours=flavours, namespace=namespace, account=account, kueue=kueue)
    print(yaml.safe_dump_all(objects, sort_keys=False), end="")


@app.command()
def plan(
    flavours: Annotated[Path, typer.Option(help="File with Kueue's flavours and their capacity.")],
    nodes: Annotated[
        Path | None,
        typer.Option(help="Output of `kubectl get nodes -o json`; flavours beyond the nodes' capacity are refused."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the GPUs of each tier under full demand. A plan that exceeds the capacity is refused."""
    from ft_assets.cli.output import print_json, print_table

    rows = api.cluster_plan(flavours, nodes=nodes)
    if as_json:
        print_json([asdict(each) for each in rows])
    else:
        columns = ("GPUs", "of", "tier", "tenants", "reserved", "full demand", "alone", "a tenant")
        print_table(columns, [_cells(each) for each in rows], empty="no flavour has GPUs")


def _cells(row: "TierPlan") -> tuple[str, ...]:
    return (
        f"{row.capacity} {row.gpu_type}".strip(),
        row.flavour,
        f"{row.tier} ({row.priority})",
        str(row.tenants),
        str(row.reserved),
        f"{row.reserved} to {row.when_all_ask}" if row.first_come else str(row.when_all_ask),
        f"up to {row.most}",
        f"{row.tenant_reserved} to {row.tenant_most}",
    )


@app.command()
def policy(
    tenant: Annotated[str, typer.Argument(help="Name of a tenant, or `shared`.")],
) -> None:
    """Print the IAM policy of a tenant's role for the bucket of FT_STORE. It covers the KMS key, if the settings in
    FT_KUBERNETES name one."""
    from ft_assets.cli.output import print_json

    print_json(api.bucket_policy(tenant))
