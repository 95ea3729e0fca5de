"""``ft suite``: evaluation suites."""

from pathlib import Path
from typing import Annotated

import typer

from ft_assets import api

app = typer.Typer(no_args_is_help=True, help="Evaluation suites: a task file (lm-eval's, or with a kind) and its data.")


@app.command()
def add(
    folder: Annotated[Path, typer.Argument(help="A folder with one task file (*.yaml) and the data it reads.")],
    key: Annotated[str, typer.Option(help="name.vN, such as book-cloze.v1.")],
) -> None:
    """Register FOLDER as a suite that recipes can name."""
    from ft_assets.cli.output import note

    registered = api.add_suite(folder, key)
    print(registered.key)
    note(f"{'registered' if registered.created else 'already registered'}: {registered.items:,} items")


@app.command("list")
def list_() -> None:
    """List the registered suites."""
    from ft_assets.cli.output import print_table

    rows = [(suite.key, suite.digest[:12]) for suite in api.list_suites()]
    print_table(("suite", "digest"), rows, empty="No suites yet. Register one: ft suite add FOLDER --key name.vN")
