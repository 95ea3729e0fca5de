"""Verification: every hash again, offline, from a line's log or an artifact down to the raw bytes and the base."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ft_assets.adapters.lineage import Lineage, lineage, verify_lineage
from ft_assets.adapters.lines import read_line
from ft_assets.recipes.register import get_recipe
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact, UserError

LINEAGE = "lineage.json"


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What verification found: ``findings`` are sentences that name what was altered and where, none if all is well;
    ``erased`` says what was erased by its tombstone, by whom and why; ``looked_at`` are the artifacts it began with."""

    looked_at: Sequence[str]
    findings: Sequence[str]
    erased: Sequence[str]


def verify_line(artifacts: Artifacts, line: str) -> Verified:
    """The line's log, record by record, and every adapter in it with all it was made of."""
    try:
        state = read_line(artifacts.store, line)
    except CorruptArtifact as error:
        return Verified(looked_at=(), findings=(f"{error.where}: {error.what}",), erased=())
    if not state.records:
        raise UserError(f"nothing was ever promoted in {line!r}", where="line", remedy="See all lines: ft lines")
    addresses = list(dict.fromkeys(record.adapter.address for record in state.records))
    verified = verify(artifacts, *addresses)
    changed = []
    for record in state.records:
        found = artifacts.find(Address.parse(record.adapter.address)) if not verified.findings else None
        if found is not None and found.ref != record.adapter:
            changed.append(f"{record.path}: the adapter has another content than the one that was promoted")
    return Verified(looked_at=addresses, findings=[*verified.findings, *changed], erased=verified.erased)


def verify(artifacts: Artifacts, *addresses: Address | str) -> Verified:
    """Artifacts with all they were made of; of adapters also what names their dataset and recipe, and what their own
    ``lineage.json`` says."""
    erased: list[str] = []
    findings = verify_lineage(artifacts, *addresses, erased=erased)
    for address in addresses:
        parsed = Address.parse(address) if isinstance(address, str) else address
        if parsed.asset == "adapter":
            findings += _adapter_findings(artifacts, parsed)
    return Verified(looked_at=[str(address) for address in addresses], findings=findings, erased=erased)


def _adapter_findings(artifacts: Artifacts, address: Address) -> Iterator[str]:
    try:
        adapter = artifacts.find(address)
    except CorruptArtifact:
        return  # Its own findings say so.
    if adapter is None:
        return
    params = adapter.manifest.identity["params"]
    try:
        tree = lineage(artifacts, address)
    except UserError:
        return  # As above, of something below it.
    yield from _name_findings(artifacts, str(params["dataset"]), tree)
    try:
        get_recipe(artifacts.store, str(params["recipe"]))
        path = f"names/recipe/{params['recipe']}.json"
        if artifacts.store.get(path) != canonical_json(artifacts.store.get_json(path)):
            yield f"{path}: the record's bytes were altered"
    except UserError as error:
        yield f"{error.where}: {error.what}"
    yield from _stored_lineage_findings(adapter, tree)


def _name_findings(artifacts: Artifacts, dataset: str, tree: Lineage) -> Iterator[str]:
    """Whether the dataset's name still leads to the raw bytes of the lineage."""
    path = f"names/dataset/{dataset}.json"
    raws = {node.address: node for _, _, node in tree.walk() if Address.parse(node.address).asset == "raw_dataset"}
    try:
        pointer = artifacts.store.find_json(path)
        if pointer is None:
            yield f"{path}: the name of the dataset is missing"
            return
        if artifacts.store.get(path) != canonical_json(pointer):
            yield f"{path}: the record's bytes were altered"
        node = raws.get(str(pointer.get("address")))
        if node is None or node.digest != pointer.get("digest"):
            yield f"{path}: the name leads to other bytes than the adapter was made of"
    except CorruptArtifact as error:
        yield f"{error.where}: {error.what}"


def _stored_lineage_findings(adapter: Artifact, tree: Lineage) -> Iterator[str]:
    """Whether ``lineage.json`` tells of exactly what the manifests lead to."""
    if LINEAGE not in adapter.manifest.files:
        return
    try:
        stored = json.loads(adapter.read(LINEAGE))["inputs"]
    except CorruptArtifact:
        return  # Its own findings say so.
    except (ValueError, KeyError, TypeError):
        yield f"{adapter.location(LINEAGE)}: the lineage cannot be read"
        return
    if stored != tree.as_json()["inputs"]:
        yield f"{adapter.location(LINEAGE)}: the lineage tells of other artifacts than the manifests lead to"
