"""``ft lineage`` and ``ft verify``: what an artifact was made of, and whether its bytes are still those."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.addresses import find_address, short
from ft_assets.cli.environment import open_store

if TYPE_CHECKING:
    from rich.tree import Tree

    from ft_assets.adapters.lineage import Lineage
    from ft_resources.artifacts import Address, Artifacts
    from ft_resources.store import Store

# Folders at the store's root that hold records and not artifacts.
_RECORDS = ("names", "open_submissions", "retrainings")


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
    """Recompute every hash of a line, or of an artifact, down to the raw bytes and the base. Exit code 1 where
    anything has changed."""
    from ft_assets.adapters.lines import list_lines
    from ft_assets.adapters.verify import Verified, verify_line
    from ft_assets.adapters.verify import verify as verify_artifacts
    from ft_assets.cli.output import note
    from ft_assets.erasure.verify import tombstone_findings
    from ft_resources.artifacts import Artifacts
    from ft_resources.errors import UserError

    if bool(target) == everything:
        raise UserError("say what to verify", where="ft verify", remedy="Give one LINE or ADDRESS, or --all.")
    store = open_store()
    artifacts = Artifacts(store)
    if everything:
        results = [verify_artifacts(artifacts, *_addresses(store))]
        results += [verify_line(artifacts, line) for line in list_lines(store)]
        results.append(Verified(looked_at=(), findings=tuple(tombstone_findings(store)), erased=()))
    elif "/" in target:
        results = [verify_artifacts(artifacts, _known(artifacts, find_address(store, target)))]
    else:
        results = [verify_line(artifacts, target)]
    findings = list(dict.fromkeys(finding for result in results for finding in result.findings))
    for text in (*dict.fromkeys(erased for result in results for erased in result.erased), *findings):
        print(text)
    looked_at = {address for result in results for address in result.looked_at}
    what = "1 artifact" if len(looked_at) == 1 else f"{len(looked_at)} artifacts"
    note(f"verified {what} and all that was used: {len(findings)} findings")
    if findings:
        raise typer.Exit(1)


def _known(artifacts: "Artifacts", address: "Address") -> "Address":
    """The address itself. Raises UserError where nothing is there, and nothing was erased."""
    from ft_assets.erasure.erased import find_erased
    from ft_resources.artifacts import MANIFEST

    if not artifacts.store.exists(f"{address}/{MANIFEST}") and find_erased(artifacts.store, address) is None:
        artifacts.get(address)
    return address


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
