"""``ft doctor``: what this store lacks for honest gates."""

from dataclasses import asdict
from typing import Annotated

import typer

from ft_assets.cli.door import api


def doctor(
    tenant: Annotated[str, typer.Option(help="Only this tenant's datasets and recipes, and shared ones.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Say what the store lacks for honest gates, and what mends it; exit status 1 if it lacks anything."""
    from ft_assets.cli.output import print_json, print_table

    found = api.doctor(tenant=tenant)
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        rows = [(each.of, each.what, each.remedy) for each in found]
        print_table(("of", "what it lacks", "what mends it"), rows, empty="Nothing is lacking.")
    if found:
        raise typer.Exit(1)
