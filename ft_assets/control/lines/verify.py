"""Verification: check every hash again, offline, from a line's log or an artifact to the raw bytes and the base."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ft_assets.control.lines.lines import POINTERS, read_unproved
from ft_assets.control.lines.signing import unsigned_decisions
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.records.names import DATASET, RECIPE
from ft_assets.settings.ungated import UNGATED
from ft_assets.workers.adapters.lineage import Lineage, lineage, verify_lineage
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.signatures import Unsigned, require_signed

LINEAGE = "lineage.json"


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Result of a verification: ``findings`` are sentences that name what was altered and where, empty if all is well;
    ``erased`` lists what was erased by tombstones, by whom and why; ``looked_at`` are the artifacts it started from."""

    looked_at: Sequence[str]
    findings: Sequence[str]
    erased: Sequence[str]


def verify_line(artifacts: Artifacts, line: str) -> Verified:
    """Verify the line's log, record by record, and every adapter in it with everything it was made from."""
    try:
        state = read_unproved(artifacts.store, line)
    except CorruptArtifact as error:
        return Verified(looked_at=(), findings=(f"{error.where}: {error.what}",), erased=())
    if not state.records:
        raise UserError(f"nothing was ever promoted in {line!r}", where="line", remedy="List all lines: ft lines")
    addresses = list(dict.fromkeys(record.adapter.address for record in state.records))
    verified = verify(artifacts, *addresses)
    changed = list(unsigned_decisions(artifacts.store, [each for each in state.records if each.stage in POINTERS]))
    for record in state.records:
        found = artifacts.find(Address.parse(record.adapter.address)) if not verified.findings else None
        if found is not None and found.ref != record.adapter:
            changed.append(f"{record.path}: the adapter's content differs from the promoted one")
    return Verified(looked_at=addresses, findings=[*verified.findings, *changed], erased=verified.erased)


def verify(artifacts: Artifacts, *addresses: Address | str) -> Verified:
    """Verify artifacts with everything they were made from; for adapters also the names of their dataset and recipe,
    and their own ``lineage.json``."""
    erased: list[str] = []
    findings = verify_lineage(artifacts, *addresses, erased=erased)
    for address in addresses:
        parsed = Address.parse(address) if isinstance(address, str) else address
        if parsed.asset in ("adapter", UNGATED):
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
        return  # As above, for something below it.
    yield from _name_findings(artifacts, str(params["dataset"]), tree)
    try:
        get_recipe(artifacts.store, str(params["recipe"]))
        path = RECIPE.path(str(params["recipe"]))
        if artifacts.store.get(path) != canonical_json(artifacts.store.get_json(path)):
            yield f"{path}: the record's bytes were altered"
    except UserError as error:
        yield f"{error.where}: {error.what}"
    yield from _stored_lineage_findings(adapter, tree)
    try:
        require_signed(artifacts.store, adapter)
    except Unsigned as error:
        yield f"{error.where}: {error.what}"


def _name_findings(artifacts: Artifacts, dataset: str, tree: Lineage) -> Iterator[str]:
    """Check that the dataset's name still points to the raw bytes of the lineage."""
    path = DATASET.path(dataset)
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
            yield f"{path}: the name refers to other bytes than the adapter was made from"
    except CorruptArtifact as error:
        yield f"{error.where}: {error.what}"


def _stored_lineage_findings(adapter: Artifact, tree: Lineage) -> Iterator[str]:
    """Check that ``lineage.json`` lists exactly what the manifests reference."""
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
        yield f"{adapter.location(LINEAGE)}: the lineage lists other artifacts than the manifests reference"
