"""``ft notices``: who was told of what, and what could not be told."""

from typing import Annotated

import typer

from ft_assets.cli.door import api


def notices(
    tenant: Annotated[str, typer.Argument(help="Tenant. Default: the platform, or the tenant of ft login.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of notices, newest first.")] = 50,
) -> None:
    """List sent notices, their recipients, and failed deliveries."""
    from ft_assets.cli.output import note, print_json, print_table

    notices = api.list_notices(tenant, limit=limit)
    found = notices.told
    if as_json:
        print_json([{"event": each.event.model_dump(mode="json"), "channels": each.channels} for each in found])
        return
    print_table(
        ("at", "event", "what", "told"),
        [
            (
                each.event.at,
                each.event.kind.value,
                each.event.title,
                "; ".join(f"{name}: {words}" for name, words in each.channels.items()) or "not yet",
            )
            for each in found
        ],
        empty="No notice was sent.",
    )
    if notices.due:
        note(f"{notices.due} events are queued for sending")
