"""Lineage: from an artifact back to its raw bytes and its base, and whether all of it is still intact."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ft_assets.records.erased import find_erased
from ft_resources.artifacts import Address, Artifact, Artifacts, Manifest
from ft_resources.canonical import digest
from ft_resources.errors import CorruptArtifact, StoreUnavailable


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """An artifact and its inputs by name. ``present`` is False if the store no longer has it.

    ``erased`` says who erased it, when and why; the lineage continues below it.
    """

    address: str
    digest: str
    code_version: str
    present: bool = True
    erased: str = ""
    inputs: dict[str, "Lineage"] = field(default_factory=dict)

    def walk(self, name: str = "", depth: int = 0) -> Iterator[tuple[int, str, "Lineage"]]:
        """Depth, input name and node; parents before their inputs, inputs sorted by name."""
        yield depth, name, self
        for key in sorted(self.inputs):
            yield from self.inputs[key].walk(key, depth + 1)

    def as_json(self) -> dict[str, Any]:
        """The tree as JSON values, for ``lineage.json``."""
        return {
            "address": self.address,
            "digest": self.digest,
            "code_version": self.code_version,
            "inputs": {name: node.as_json() for name, node in sorted(self.inputs.items())},
        }


def lineage(artifacts: Artifacts, address: Address | str) -> Lineage:
    """The tree below ``address``, read from the manifests. Raises UserError if there is no such artifact."""
    wanted = Address.parse(address) if isinstance(address, str) else address
    found = _look_up(artifacts, wanted)
    if found is None:
        found = artifacts.get(wanted).manifest, ""
    return _node(artifacts, *found, {})


def _look_up(artifacts: Artifacts, address: Address) -> tuple[Manifest, str] | None:
    """The manifest at ``address`` and, if its bytes were erased, who erased them; None if nothing is known about it."""
    artifact = artifacts.find(address)
    if artifact is not None:
        return artifact.manifest, ""
    erased = find_erased(artifacts.store, address)
    return (erased.manifest, erased.sentence) if erased else None


def _node(artifacts: Artifacts, manifest: Manifest, erased: str, known: dict[str, Lineage]) -> Lineage:
    inputs = {}
    for name, ref in manifest.inputs.items():
        if ref.address not in known:
            found = _look_up(artifacts, Address.parse(ref.address))
            known[ref.address] = (
                _node(artifacts, *found, known)
                if found is not None
                else Lineage(address=ref.address, digest=ref.digest, code_version="", present=False)
            )
        inputs[name] = known[ref.address]
    return Lineage(
        address=str(manifest.address),
        digest=manifest.content_digest,
        code_version=str(manifest.identity.get("code_version", "")),
        present=not erased,
        erased=erased,
        inputs=inputs,
    )


def verify_lineage(artifacts: Artifacts, *addresses: Address | str, erased: list[str] | None = None) -> list[str]:
    """Recompute every hash of the artifacts and of all their inputs; the findings as sentences, empty if all is well.

    Checks the bytes of each file, each manifest's own bytes, fingerprint and content digest, and whether each input is
    still the one that was used. An artifact erased by its tombstone is not a finding: it is listed in ``erased``, and
    its inputs are still checked.
    """
    waiting = [Address.parse(address) if isinstance(address, str) else address for address in addresses]
    findings: list[str] = []
    seen = set(waiting)
    while waiting:
        current = waiting.pop()
        try:
            found = _look_up(artifacts, current)
        except StoreUnavailable:
            raise
        except CorruptArtifact as error:
            findings.append(f"{error.where}: {error.what}")
            continue
        if found is None:
            findings.append(f"{current} is no longer in the store")
            continue
        manifest, sentence = found
        if not sentence:
            findings += Artifact(artifacts.store, manifest).verify()
        elif erased is not None:
            erased.append(f"{current}: erased, {sentence}")
        findings += _input_findings(artifacts, manifest)
        for ref in manifest.inputs.values():
            parent = Address.parse(ref.address)
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return findings


def _input_findings(artifacts: Artifacts, manifest: Manifest) -> Iterator[str]:
    recorded = manifest.identity.get("inputs", {})
    for name, ref in sorted(manifest.inputs.items()):
        if recorded.get(name) != ref.digest:
            yield f"{manifest.address}: input {name} is not the one its fingerprint was computed from"
        try:
            found = _look_up(artifacts, Address.parse(ref.address))
        except CorruptArtifact:
            continue  # The input's own findings already say so.
        if found is not None and ref.digest not in _digests(found[0]):
            yield f"{manifest.address}: input {name} ({ref.address}) has changed since it was used"


def _digests(manifest: Manifest) -> set[str]:
    """The digests that an input may have: of its content or, if only its tokenizer counts, of its tokenizer."""
    facts = manifest.facts
    keys = ("tokenizer_digest", "template_digest")
    tokenizer = {digest({key: facts[key] for key in keys})} if all(key in facts for key in keys) else set()
    return {manifest.content_digest} | tokenizer
