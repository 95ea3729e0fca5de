"""``ft lineage`` and ``ft verify``: what an artifact was made of, and whether its bytes are still those."""

from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets import api
from ft_assets.cli.addresses import short

if TYPE_CHECKING:
    from rich.tree import Tree

    from ft_assets.api import Lineage


def lineage(address: Annotated[str, typer.Argument(help="An artifact's address.")]) -> None:
    """Show what an artifact was made from, down to the uploaded bytes."""
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(_branch("", api.lineage(address), set()))


def _branch(name: str, node: "Lineage", seen: set[str]) -> "Tree":
    """The node with its inputs; a node shown before is not expanded again."""
    from rich.text import Text
    from rich.tree import Tree

    again = node.address in seen
    seen.add(node.address)
    label = Text.assemble((f"{name}  " if name else "", "cyan"), short(node.address))
    if node.erased:
        label.append(f"  erased, {node.erased}", "red")
    elif not node.present:
        label.append("  not in the store any more", "red")
    elif again and node.inputs:
        label.append("  as above", "dim")
    branch = Tree(label)
    for key in [] if again else sorted(node.inputs):
        branch.children.append(_branch(key, node.inputs[key], seen))
    return branch


def verify(
    target: Annotated[str, typer.Argument(help="A line (tenant.dataset.recipe), or an artifact's address.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Every artifact and every line of the store.")] = False,
) -> None:
    """Recompute every hash of a line or an artifact, down to the raw bytes and the base. Exit code 1 if anything has
    changed."""
    from ft_assets.cli.output import note

    found = api.verify(target, everything=everything)
    for text in (*found.erased, *found.findings):
        print(text)
    what = "1 artifact" if len(found.looked_at) == 1 else f"{len(found.looked_at)} artifacts"
    note(f"verified {what} and everything it was made from: {len(found.findings)} findings")
    if found.findings:
        raise typer.Exit(1)
