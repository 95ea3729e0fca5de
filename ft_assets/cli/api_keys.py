"""``ft key``: keys of the HTTP API."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from ft_assets.cli.door import api

app = typer.Typer(no_args_is_help=True, help="Keys of the HTTP API.")


@app.command("create")
def create(
    tenant: Annotated[str, typer.Argument(help="Whose data and models it opens; shared for the role platform.")],
    role: Annotated[
        str,
        typer.Option(
            help="viewer reads, member trains, promoter decides, admin deletes and makes keys; platform: all tenants'."
        ),
    ] = "member",
    name: Annotated[str, typer.Option(help="Whom or what it is for; records name it.")] = "",
    expires: Annotated[
        str, typer.Option(help="A number and h, d or w, such as 90d. Default: the key never expires.")
    ] = "",
) -> None:
    """Make a key and print it, once: only its digest is kept."""
    from ft_assets.cli.output import note

    key, text = api.create_key(tenant, role=role, name=name, expires=expires)  # type: ignore[arg-type]
    print(text)
    note(f"{key.role} of {key.tenant}; nobody can see it again. To end it: ft key revoke {key.prefix}")


@app.command("list")
def list_keys(tenant: Annotated[str, typer.Argument(help="Name of the tenant. Default: all tenants.")] = "") -> None:
    """Show keys, without their secrets."""
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
def revoke(prefix: Annotated[str, typer.Argument(help="The part of the key that `ft key list` shows.")]) -> None:
    """Refuse a key from now on."""
    from ft_assets.cli.output import note

    key = api.revoke_key(prefix)
    note(f"{key.prefix} of {key.tenant} is revoked, by {key.revoked_by}")


def _day(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).date().isoformat()
