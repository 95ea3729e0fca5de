"""``ft doctor``: what this store lacks for honest gates."""

from dataclasses import asdict
from typing import Annotated

import typer

from ft_assets.cli.door import api


def doctor(
    tenant: Annotated[str, typer.Option(help="Only datasets and recipes of this tenant, and shared ones.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check that suites, datasets and recipes are sufficient for reliable gates. Exit code 1 if anything is missing."""
    from ft_assets.cli.output import print_json, print_table

    found = api.doctor(tenant=tenant)
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        rows = [(each.of, each.what, each.remedy) for each in found]
        print_table(("of", "missing", "remedy"), rows, empty="Nothing is missing.")
    if found:
        raise typer.Exit(1)
