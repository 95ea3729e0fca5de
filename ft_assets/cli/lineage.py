"""``ft lineage`` and ``ft verify``: what an artifact was made of, and whether its bytes are still those."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.addresses import find_address, short
from ft_assets.cli.environment import open_store

if TYPE_CHECKING:
    from rich.tree import Tree

    from ft_assets.adapters.lineage import Lineage
    from ft_resources.artifacts import Address
    from ft_resources.store import Store

# Folders at the store's root that hold records and not artifacts.
_RECORDS = ("names", "open_submissions")


def lineage(address: Annotated[str, typer.Argument(help="An artifact's address.")]) -> None:
    """What an artifact was made of, down to the uploaded bytes."""
    from rich.console import Console

    from ft_assets.adapters.lineage import lineage as read_lineage
    from ft_resources.artifacts import Artifacts

    store = open_store()
    tree = read_lineage(Artifacts(store), find_address(store, address))
    Console(highlight=False, soft_wrap=True).print(_branch("", tree, set()))


def _branch(name: str, node: "Lineage", seen: set[str]) -> "Tree":
    """The node with its inputs; what was shown before is not unfolded again."""
    from rich.text import Text
    from rich.tree import Tree

    again = node.address in seen
    seen.add(node.address)
    label = Text.assemble((f"{name}  " if name else "", "cyan"), short(node.address))
    if not node.present:
        label.append("  not in the store any more", "red")
    elif again and node.inputs:
        label.append("  as above", "dim")
    branch = Tree(label)
    for key in [] if again else sorted(node.inputs):
        branch.children.append(_branch(key, node.inputs[key], seen))
    return branch


def verify(
    address: Annotated[str, typer.Argument(help="An artifact's address.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Every artifact of the store.")] = False,
) -> None:
    """Recompute every hash of an artifact and of its lineage, or of all. Exit code 1 where anything has changed."""
    from ft_assets.adapters.lineage import verify_lineage
    from ft_assets.cli.output import note
    from ft_resources.artifacts import MANIFEST, Artifacts
    from ft_resources.errors import UserError

    if bool(address) == everything:
        raise UserError("say what to verify", where="ft verify", remedy="Give one ADDRESS, or --all.")
    store = open_store()
    artifacts = Artifacts(store)
    addresses = list(_addresses(store)) if everything else [find_address(store, address)]
    if not everything and not store.exists(f"{addresses[0]}/{MANIFEST}"):
        artifacts.get(addresses[0])
    findings = verify_lineage(artifacts, *addresses)
    for finding in findings:
        print(finding)
    what = f"{len(addresses)} artifacts" if everything else "the artifact and all that it was made of"
    note(f"verified {what}: {len(findings)} findings")
    if findings:
        raise typer.Exit(1)


def _addresses(store: "Store") -> "Iterator[Address]":
    """Every artifact of the store: each folder with a manifest."""
    from ft_resources.artifacts import MANIFEST, Address

    for tenant in store.folders():
        if tenant in _RECORDS:
            continue
        for asset in store.folders(tenant):
            for fingerprint in store.folders(f"{tenant}/{asset}"):
                address = Address(tenant=tenant, asset=asset, fingerprint=fingerprint)
                if store.exists(f"{address}/{MANIFEST}"):
                    yield address
