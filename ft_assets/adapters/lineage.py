"""Lineage: from an artifact back to the raw bytes and the base it was made of, and whether all of it still holds."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import digest
from ft_resources.errors import CorruptArtifact


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """An artifact and, by input name, what it was made of; ``present`` is False where the store has it no more."""

    address: str
    digest: str
    code_version: str
    present: bool = True
    inputs: dict[str, "Lineage"] = field(default_factory=dict)

    def walk(self, name: str = "", depth: int = 0) -> Iterator[tuple[int, str, "Lineage"]]:
        """Depth, input name and node, parents before their inputs, which come by name."""
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
    """The tree below ``address``, read from the manifests. Raises UserError where there is no such artifact."""
    wanted = Address.parse(address) if isinstance(address, str) else address
    return _node(artifacts, artifacts.get(wanted), {})


def _node(artifacts: Artifacts, artifact: Artifact, known: dict[str, Lineage]) -> Lineage:
    inputs = {}
    for name, ref in artifact.manifest.inputs.items():
        if ref.address not in known:
            found = artifacts.find(Address.parse(ref.address))
            known[ref.address] = (
                _node(artifacts, found, known)
                if found is not None
                else Lineage(address=ref.address, digest=ref.digest, code_version="", present=False)
            )
        inputs[name] = known[ref.address]
    return Lineage(
        address=str(artifact.address),
        digest=artifact.digest,
        code_version=str(artifact.manifest.identity.get("code_version", "")),
        inputs=inputs,
    )


def verify_lineage(artifacts: Artifacts, *addresses: Address | str) -> list[str]:
    """Recompute every hash of artifacts and of all they were made of; the findings as sentences, none if all is well.

    Looks at each file's bytes, each fingerprint and content digest, and whether each input is still what was used.
    """
    waiting = [Address.parse(address) if isinstance(address, str) else address for address in addresses]
    findings: list[str] = []
    seen = set(waiting)
    while waiting:
        current = waiting.pop()
        try:
            artifact = artifacts.find(current)
        except CorruptArtifact as error:
            findings.append(f"{error.where}: {error.what}")
            continue
        if artifact is None:
            findings.append(f"{current} is not in the store any more")
            continue
        findings += artifact.verify()
        findings += _input_findings(artifacts, artifact)
        for ref in artifact.manifest.inputs.values():
            parent = Address.parse(ref.address)
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return findings


def _input_findings(artifacts: Artifacts, artifact: Artifact) -> Iterator[str]:
    recorded = artifact.manifest.identity.get("inputs", {})
    for name, ref in sorted(artifact.manifest.inputs.items()):
        if recorded.get(name) != ref.digest:
            yield f"{artifact.address}: input {name} is not the one its fingerprint was computed from"
        try:
            parent = artifacts.find(Address.parse(ref.address))
        except CorruptArtifact:
            continue  # Its own findings say so.
        if parent is not None and ref.digest not in _digests(parent):
            yield f"{artifact.address}: input {name} ({ref.address}) has changed since it was used"


def _digests(artifact: Artifact) -> set[str]:
    """What an input's digest may be: of its content or, where only its tokenizer counts, of that."""
    facts = artifact.facts
    keys = ("tokenizer_digest", "template_digest")
    tokenizer = {digest({key: facts[key] for key in keys})} if all(key in facts for key in keys) else set()
    return {artifact.digest} | tokenizer
