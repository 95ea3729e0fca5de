"""``ft backfill``: one backfill of Dagster over the whole graph."""

from typing import Annotated

import typer

from ft_assets.cli.door import api, waits_for


def backfill(
    datasets: Annotated[list[str], typer.Option("--dataset", "-d", help="Key of a dataset version; repeat for more.")],
    recipes: Annotated[list[str], typer.Option("--recipe", "-r", help="Key of a recipe; repeat for more.")],
    allow_pairs: Annotated[int, typer.Option(min=0, help="A larger limit on pairs than FT_MAX_PAIRS.")] = 0,
) -> None:
    """Train every pair of the given dataset versions and recipes in one backfill of Dagster."""
    from ft_assets.cli.output import note

    started = api.backfill(datasets, recipes, allow_pairs=allow_pairs)
    print(started)
    note(f"{len(datasets) * len(recipes)} adapters are requested; {waits_for()}")
