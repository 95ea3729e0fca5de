"""``ft kernels``: the optional kernels on this machine, which a GPU image is tested with."""

from dataclasses import asdict
from typing import Annotated

import typer

from ft_assets.cli.door import api

_STYLES = {"works": "green", "imports": "cyan", "broken": "red"}


def kernels(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Test every optional kernel on a small example. Exit code 1 if an installed kernel is broken."""
    from rich.text import Text

    from ft_assets.cli.output import print_json, print_table

    found = list(api.kernels())
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        rows = [
            (k.name, k.version, Text(k.state, style=_STYLES.get(k.state, "dim")), k.detail or k.serves) for k in found
        ]
        print_table(("kernel", "version", "state", "serves"), rows, empty="")
    if any(each.state == "broken" for each in found):
        raise typer.Exit(1)
