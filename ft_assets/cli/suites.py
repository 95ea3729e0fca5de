"""``ft suite``: evaluation suites."""

from pathlib import Path
from typing import Annotated

import typer

from ft_assets.cli.environment import actor, open_store

app = typer.Typer(no_args_is_help=True, help="Evaluation suites: a task file (lm-eval's, or with a kind) and its data.")


@app.command()
def add(
    folder: Annotated[Path, typer.Argument(help="A folder with one task file (*.yaml) and the data it reads.")],
    key: Annotated[str, typer.Option(help="name.vN, such as book-cloze.v1.")],
) -> None:
    """Register FOLDER as a suite that recipes can name."""
    from ft_assets.cli.output import note
    from ft_assets.evals.suites import add_suite

    registered = add_suite(open_store(), folder, key, actor())
    print(registered.key)
    note(f"{'registered' if registered.created else 'was registered already'}: {registered.items:,} items")


@app.command("list")
def list_() -> None:
    """All registered suites."""
    from ft_assets.cli.output import print_table
    from ft_assets.evals.suites import get_suite, list_suites

    store = open_store()
    rows = [(key, get_suite(store, key).digest[:12]) for key in list_suites(store)]
    print_table(("suite", "digest"), rows, empty="No suites yet. Register one: ft suite add FOLDER --key name.vN")
