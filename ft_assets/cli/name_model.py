"""``ft dataset name-model``: language models that find names and places in a dataset's texts."""

from pathlib import Path
from typing import Annotated

import typer

from ft_assets.cli.door import api

app = typer.Typer(no_args_is_help=True, help="Language models for the search for names and places.")


@app.command()
def add(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of a spaCy pipeline, with config.cfg and meta.json.")
    ],
    key: Annotated[
        str, typer.Argument(metavar="NAME.vN", help="Key of the model, such as names-en.v1. It cannot be reassigned.")
    ],
) -> None:
    """Add the spaCy model in FOLDER as NAME.vN."""
    from ft_assets.cli.output import note

    registered = api.add_name_model(folder, key)
    print(registered.key)
    found = ", ".join(registered.entities)
    note(f"{'added' if registered.created else 'already present'}; language {registered.language}, finds {found}")


@app.command("list")
def list_() -> None:
    """List the name models with their language and entity types."""
    from ft_assets.cli.output import print_table

    print_table(
        ("name model", "language", "entities"),
        [(key, language, ", ".join(entities)) for key, language, entities in api.list_name_models()],
        empty="No name models yet. Add one: ft dataset name-model add FOLDER NAME.vN",
    )
