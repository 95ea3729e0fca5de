"""``ft key``: keys of the HTTP API."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from ft_assets.cli.door import api

app = typer.Typer(no_args_is_help=True, help="API keys.")


@app.command("create")
def create(
    tenant: Annotated[str, typer.Argument(help="Tenant that the key gives access to; `shared` for the role platform.")],
    role: Annotated[
        str,
        typer.Option(
            help="viewer (read), member (also train), promoter (also promote), admin (also delete and create "
            "keys), or platform (keys and reports of all tenants)."
        ),
    ] = "member",
    name: Annotated[str, typer.Option(help="Owner or purpose of the key, shown in records.")] = "",
    expires: Annotated[
        str, typer.Option(help="Lifetime: a number and h, d or w, such as 90d. Default: no expiry.")
    ] = "",
) -> None:
    """Create an API key and print it. It is shown only once; only its digest is stored."""
    from ft_assets.cli.output import note

    key, text = api.create_key(tenant, role=role, name=name, expires=expires)  # type: ignore[arg-type]
    print(text)
    note(f"{key.role} of {key.tenant}. The key is not shown again. To revoke it: ft key revoke {key.prefix}")


@app.command("list")
def list_keys(tenant: Annotated[str, typer.Argument(help="Name of the tenant. Default: all tenants.")] = "") -> None:
    """List API keys, without their secrets."""
    from ft_assets.cli.output import print_table

    rows = [
        (
            key.prefix,
            key.tenant,
            key.role,
            key.name,
            key.state,
            _day(key.created_at),
            key.created_by,
            _day(key.expires_at),
        )
        for key in api.list_keys(tenant)
    ]
    print_table(
        ("prefix", "tenant", "role", "name", "state", "created", "by", "expires"),
        rows,
        empty="no keys yet: ft key create TENANT",
    )


@app.command("revoke")
def revoke(prefix: Annotated[str, typer.Argument(help="Prefix of the key, as shown by `ft key list`.")]) -> None:
    """Revoke an API key."""
    from ft_assets.cli.output import note

    key = api.revoke_key(prefix)
    note(f"revoked {key.prefix} of {key.tenant}, by {key.revoked_by}")


def _day(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).date().isoformat()
