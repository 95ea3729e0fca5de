"""``ft notices``: who was told of what, and what could not be told."""

from typing import Annotated

import typer

from ft_assets.cli.door import api


def notices(
    tenant: Annotated[
        str, typer.Argument(help="Name of the tenant. Default: the platform's own, or the tenant of ft login.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most this many, newest first.")] = 50,
) -> None:
    """List the notices sent about a tenant's work, their receivers, and failed deliveries."""
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
        note(f"{notices.due} events are still to be sent")
