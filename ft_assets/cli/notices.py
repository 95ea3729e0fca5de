"""``ft notices``: who was told of what, and what could not be told."""

from typing import Annotated

import typer

from ft_assets.cli.environment import open_store


def notices(
    tenant: Annotated[str, typer.Argument(help="Name of the tenant; `shared` for the platform's own.")] = "shared",
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, newest first.")] = 50,
) -> None:
    """Show what was told of a tenant's work, to whom, and what failed."""
    from itertools import islice

    from ft_assets.cli.output import note, print_json, print_table
    from ft_assets.keys import check_part
    from ft_assets.notices.due import FOLDER
    from ft_assets.notices.records import told

    store = open_store()
    found = list(islice(told(store, check_part(tenant, "tenant")), limit))
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
        empty="Nobody was told of anything.",
    )
    due = sum(1 for _ in store.entries(f"{FOLDER}/{tenant}"))
    if due:
        note(f"{due} events are still to be told")
