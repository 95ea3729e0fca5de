"""``ft base-bump``: what a moved base means for everything that stood on the old one."""

from typing import Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api


def base_bump(
    recipe: Annotated[str, typer.Argument(help="Key of the successor recipe, which has the new base.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the lines that depend on the old base, and the progress of their migration to the new one."""
    from dataclasses import asdict

    from ft_assets.cli.output import note, print_json, print_table

    report = api.base_bump(recipe)
    release = report.release
    if as_json:
        released = release.model_dump(mode="json") if release else None
        print_json({"recipe": recipe, "released": released, "dependents": [asdict(row) for row in report.rows]})
        return
    print_table(
        ("line", "dataset", "before", "step", "now", "why"),
        [
            (row.line, row.dataset, short(row.before), row.step, short(row.now) if row.now else "", row.reason)
            for row in report.rows
        ],
        empty="No line depended on the base.",
    )
    said = f"released by {release.actor} at {release.at}: {release.reason}" if release else "its base is held"
    note(f"{report.summary}; {said}")
