"""``ft recipe``: register recipes and see what they mean."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ft_assets.cli.environment import actor, open_instance, open_store

app = typer.Typer(no_args_is_help=True, help="Recipes: immutable, versioned YAML that says how to fine-tune what.")


@app.command()
def add(file: Annotated[Path, typer.Argument(help="The recipe's YAML file.")]) -> None:
    """Register FILE and lock the revision and content of its base model."""
    from ft_assets.cli.output import note
    from ft_assets.recipes.register import register_recipe
    from ft_assets.submissions.run import register_partitions
    from ft_assets.sweeps.retired import is_retired

    store = open_store()
    registered, instance = register_recipe(store, file, actor=actor()), open_instance()
    listed = () if is_retired(store, registered.key) else registered.trials
    for key in (registered.key, *listed):
        register_partitions(instance, recipe=key)
    print(registered.key)
    if registered.trials:
        first, last = registered.trials[0], registered.trials[-1]
        note(f"a sweep of {len(registered.trials)} trials, {first} to {last}; see them with: ft recipe list --trials")
    note("registered" if registered.created else "the same recipe is registered already; nothing was added")


@app.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    trials: Annotated[bool, typer.Option("--trials", help="The trials of sweeps as well.")] = False,
) -> None:
    """All registered recipes."""
    from ft_assets.cli.output import print_json, print_table
    from ft_assets.recipes.register import get_recipe, list_recipes

    store = open_store()
    rows = [
        {
            "key": key,
            "base": stored.lock.source,
            "method": f"{stored.recipe.method} {stored.recipe.variant}",
            "digest": stored.digest,
            "description": stored.recipe.description,
        }
        for key in list_recipes(store)
        for stored in [get_recipe(store, key)]
        if trials or stored.trial is None
    ]
    if as_json:
        print_json(rows)
        return
    columns = ("key", "method", "base", "description")
    print_table(
        columns,
        [[row[column] for column in columns] for row in rows],
        empty="No recipes yet. Register one: ft recipe add FILE",
    )


@app.command()
def show(key: Annotated[str, typer.Argument(help="Recipe key, such as tiny.v1.")]) -> None:
    """Every setting of a recipe as it is used, and where each came from."""
    from ft_assets.cli.output import print_table
    from ft_assets.recipes.register import get_recipe
    from ft_assets.sweeps.expand import shown_values
    from ft_resources.dotted import leaves

    stored = get_recipe(open_store(), key)
    recipe, origins = stored.recipe.resolved()
    settings = dict(leaves(recipe.model_dump(mode="json")))
    rows = [(path, _shown(settings[path]), origin) for path, origin in origins.items() if path != "sweep"]
    rows += [(trial.key, shown_values(trial.values), "a trial of this sweep") for trial in stored.trials]
    lock = stored.lock
    rows += [("lock.source", lock.source, "locked"), ("lock.revision", lock.revision, "locked")]
    rows += [("lock.digest", lock.digest, "locked")]
    print_table(("setting", "value", "from"), rows, empty="")


@app.command()
def schema() -> None:
    """The recipe's JSON schema, for editors."""
    from ft_assets.recipes.schema import recipe_schema

    print(recipe_schema(), end="")


def _shown(value: Any) -> str:
    """A value as YAML would write it, long texts cut."""
    if isinstance(value, list):
        return f"[{', '.join(str(item) for item in value)}]"
    text = "null" if value is None else str(value)
    text = text.replace("\n", "⏎")
    return text if len(text) <= 80 else f"{text[:79]}…"
