"""``ft recipe``: register recipes and see what they mean."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ft_assets.cli.door import api
from ft_resources.dotted import leaves

if TYPE_CHECKING:
    from ft_assets.api import RetiredRecipe

app = typer.Typer(
    no_args_is_help=True, help="Recipes: immutable, versioned YAML files with the base and all settings of a training."
)


@app.command()
def add(file: Annotated[Path, typer.Argument(help="The recipe's YAML file.")]) -> None:
    """Register FILE and lock the revision and content of its base model."""
    from ft_assets.cli.output import note, note_walls

    registered = api.register_recipe(file)
    print(registered.key)
    if registered.trials:
        first, last = registered.trials[0], registered.trials[-1]
        note(f"a sweep of {len(registered.trials)} trials, {first} to {last}; see them with: ft recipe list --trials")
    for each in registered.notes:
        note(each)
    note_walls(registered.walls)
    note("registered" if registered.created else "the same recipe is already registered; nothing was added")


@app.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    trials: Annotated[bool, typer.Option("--trials", help="Include the trials of sweeps.")] = False,
    retired: Annotated[bool, typer.Option("--retired", help="Include retired recipes.")] = False,
) -> None:
    """List the registered recipes."""
    from ft_assets.cli.output import print_json, print_table

    rows = [
        {
            "key": stored.recipe.key,
            "base": stored.lock.source,
            "method": f"{stored.recipe.method} {stored.recipe.variant}",
            "digest": stored.digest,
            "description": stored.recipe.description,
        }
        for stored in api.list_recipes(trials=trials, retired=retired)
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
def show(
    key: Annotated[str, typer.Argument(help="Recipe key, such as tiny.v1.")],
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Print the recipe as written, as YAML for its next version.")
    ] = False,
) -> None:
    """Show all settings of a recipe, with their origin."""
    if as_yaml:
        print(api.next_version(key), end="")
        return
    from ft_assets.cli.output import print_table
    from ft_assets.settings.recipe.shown import shown_values

    stored = api.get_recipe(key)
    recipe, origins = api.resolved_recipe(key)
    settings = dict(leaves(recipe.model_dump(mode="json")))
    rows = [(path, _shown(settings[path]), origin) for path, origin in origins.items() if path != "sweep"]
    rows += [(trial.key, shown_values(trial.values), "a trial of this sweep") for trial in stored.trials]
    lock = stored.lock
    rows += [("lock.source", lock.source, "locked"), ("lock.revision", lock.revision, "locked")]
    rows += [("lock.digest", lock.digest, "locked")]
    print_table(("setting", "value", "from"), rows, empty="")


@app.command()
def retire(
    key: Annotated[str, typer.Argument(help="Recipe key, such as tiny.v1.")],
    note: Annotated[str, typer.Option(help="Reason (recorded with your name).")],
) -> None:
    """Retire a recipe: new submissions are refused, existing results are kept."""
    _tell("retired", *api.retire_recipe(key, note=note))


@app.command()
def restore(
    key: Annotated[str, typer.Argument(help="Key of a retired recipe.")],
    note: Annotated[str, typer.Option(help="Reason (recorded with your name).")],
) -> None:
    """Restore a retired recipe."""
    _tell("restored", *api.restore_recipe(key, note=note))


def _tell(done: str, record: "RetiredRecipe", created: bool) -> None:
    print(f"{record.recipe}: {done}{'' if created else ' already'} by {record.actor} at {record.at}: {record.note}")


@app.command()
def schema() -> None:
    """Print the recipe's JSON schema, for editors."""
    from ft_assets.settings.schema import json_schema

    print(json_schema("recipe"), end="")


def _shown(value: Any) -> str:
    """A value as YAML writes it; long texts are cut."""
    if isinstance(value, list):
        return f"[{', '.join(str(item) for item in value)}]"
    text = "null" if value is None else str(value)
    text = text.replace("\n", "⏎")
    return text if len(text) <= 80 else f"{text[:79]}…"
