"""``ft estimate``: what a training would take."""

from dataclasses import asdict
from typing import Annotated

import typer

from ft_assets.cli.environment import open_store


def estimate(
    dataset: Annotated[str, typer.Argument(help="Dataset key, such as acme.support.v1.")],
    recipe: Annotated[str, typer.Argument(help="Recipe key, such as tiny.v1.")],
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Tokens, steps and time of training RECIPE on DATASET; each number says what it stands on."""
    from ft_assets.cli.output import print_json, print_table, seconds
    from ft_assets.keys import DatasetKey, RecipeKey, check_pair
    from ft_assets.submissions.estimate import estimate_training
    from ft_resources.artifacts import Artifacts

    check_pair(DatasetKey.parse(dataset), RecipeKey.parse(recipe))
    found = estimate_training(Artifacts(open_store()), dataset, recipe)
    if as_json:
        print_json(asdict(found))
        return
    time = "unknown" if found.seconds is None else f"about {seconds(found.seconds)}"
    rows = [
        ("tokens per epoch", f"{found.tokens_per_epoch:,}", found.tokens_from),
        ("windows per epoch", f"{found.windows:,}", found.tokens_from),
        ("optimizer steps", f"{found.steps:,}", f"{found.steps_per_epoch:,} an epoch"),
        ("tokens in all", f"{found.tokens:,}", ""),
        ("time to train", time, found.seconds_from),
    ]
    print_table(("", "estimate", "stands on"), rows, empty="")
