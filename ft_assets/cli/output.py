"""What the commands print: results to stdout, everything about them to stderr."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ft_assets.cli.terminal import keep_commands_out_of_rich
from ft_resources.errors import UserError
from ft_resources.shown import escaped

keep_commands_out_of_rich()


def print_error(error: UserError) -> None:
    """Print what is wrong, where, and what to do."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("Error: ", "bold red"), (error.what, "red")))
    if error.where:
        console.print(Text.assemble(("  where: ", "dim"), error.where))
    if error.remedy:
        console.print(Text.assemble(("  what to do: ", "dim"), error.remedy))


def note(text: str) -> None:
    """Print a remark for people to stderr; scripts read stdout only."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(text, style="dim"))


def warn(warnings: Iterable[str]) -> None:
    """Print what people must know before they go on to stderr."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for text in warnings:
        console.print(Text.assemble(("Warning: ", "bold yellow"), text))


def note_walls(walls: Sequence[str]) -> None:
    """Print what keeps results out of production to stderr, as remarks: most first tries are not meant to get there."""
    if walls:
        note("as it stands, production would refuse the result:")
    for wall in walls:
        note(f"- {wall}")


def print_json(value: Any) -> None:
    """``value`` as indented JSON."""
    print(escaped(json.dumps(value, indent=2, ensure_ascii=False)))


def print_suggestions(suggestions: Sequence[str]) -> None:
    """Print what to try after a rejection, one suggestion a line."""
    console = Console(soft_wrap=True, highlight=False)
    for number, sentence in enumerate(suggestions):
        console.print(Text.assemble(("try       " if number == 0 else "          ", "bold"), sentence))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, empty: str) -> None:
    """Print a plain table, or ``empty`` if it has no rows."""
    settled = list(rows)
    if not settled:
        note(empty)
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        # Whatever reads this wants whole lines.
        console.width = 10_000
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in settled:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    console.print(table)
