"""``ft lineage`` and ``ft verify``: what an artifact was made of, and whether its bytes are still those."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api

if TYPE_CHECKING:
    from rich.tree import Tree

    from ft_assets.api import Lineage


_ADDRESS = re.compile(r"[a-z0-9-]+/[a-z_]+/[0-9a-f]{64}")
TARGET_HELP = (
    "An artifact's address, a pair DATASET|RECIPE, the key of a dataset or a recipe, or a line (tenant.dataset.recipe)."
)


def lineage(target: Annotated[str, typer.Argument(help=TARGET_HELP)]) -> None:
    """Show the inputs of an artifact, down to the uploaded files."""
    from rich.console import Console

    tree = api.lineage(target)
    names = api.names_of(node.address for _, _, node in tree.walk())
    Console(highlight=False, soft_wrap=True).print(_branch("", tree, names, set()))


def _branch(name: str, node: "Lineage", names: dict[str, str], seen: set[str]) -> "Tree":
    """The node with its inputs; a node shown before is not expanded again."""
    from rich.text import Text
    from rich.tree import Tree

    again = node.address in seen
    seen.add(node.address)
    known = names[node.address]
    label = Text.assemble((f"{name}  " if name else "", "cyan"), short(node.address), f"  {known}" if known else "")
    if node.erased:
        label.append(f"  erased, {node.erased}", "red")
    elif not node.present:
        label.append("  no longer in the store", "red")
    elif again and node.inputs:
        label.append("  as above", "dim")
    branch = Tree(label)
    for key in [] if again else sorted(node.inputs):
        branch.children.append(_branch(key, node.inputs[key], names, seen))
    return branch


def verify(
    target: Annotated[str, typer.Argument(help=TARGET_HELP)] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Verify every artifact and every line of the store.")
    ] = False,
) -> None:
    """Verify every hash of an artifact or a line, down to the raw files and the base. Exit code 1 if anything was
    changed.
    """
    from ft_assets.cli.output import note

    found = api.verify(target, everything=everything)
    said = [(text, _ADDRESS.search(text)) for text in (*found.erased, *found.findings)]
    shown = [] if everything else found.looked_at
    names = api.names_of([*shown, *(match[0] for _, match in said if match)])
    for text, match in said:
        known = names[match[0]] if match else ""
        print(f"{text} ({known})" if known else text)
    for address in shown:
        note(f"{short(address)}  {names[address]}".rstrip())
    what = "1 artifact" if len(found.looked_at) == 1 else f"{len(found.looked_at)} artifacts"
    note(f"verified {what} and all of its inputs: {len(found.findings)} findings")
    if found.findings:
        raise typer.Exit(1)
