"""Lineage: from an artifact back to the raw bytes and the base it was made of, and whether all of it still holds."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ft_assets.erasure.erased import find_erased
from ft_resources.artifacts import MANIFEST, Address, Artifact, Artifacts, Manifest, content_digest
from ft_resources.canonical import canonical_json, digest
from ft_resources.errors import CorruptArtifact, StoreUnavailable


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """An artifact and, by input name, what it was made of; ``present`` is False where the store has it no more.

    ``erased`` says who had it erased, when and why; then the lineage goes on below it all the same.
    """

    address: str
    digest: str
    code_version: str
    present: bool = True
    erased: str = ""
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
    found = _look_up(artifacts, wanted)
    if found is None:
        found = artifacts.get(wanted).manifest, ""
    return _node(artifacts, *found, {})


def _look_up(artifacts: Artifacts, address: Address) -> tuple[Manifest, str] | None:
    """The manifest at ``address`` and, where its bytes were erased, by whom; None where nothing is known of it."""
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
    """Recompute every hash of artifacts and of all they were made of; the findings as sentences, none if all is well.

    Looks at each file's bytes, each manifest's, fingerprint and content digest, and whether each input is still what
    was used. What was erased by its tombstone is no finding: it is told in ``erased``, and what it was made of is
    looked at all the same.
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
            findings.append(f"{current} is not in the store any more")
            continue
        manifest, sentence = found
        if not sentence:
            findings += _own_findings(Artifact(artifacts.store, manifest))
        elif erased is not None:
            erased.append(f"{current}: erased, {sentence}")
        findings += _input_findings(artifacts, manifest)
        for ref in manifest.inputs.values():
            parent = Address.parse(ref.address)
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return findings


def _own_findings(artifact: Artifact) -> Iterator[str]:
    """What is wrong with an artifact's manifest and files, whose bytes are read in pieces."""
    manifest, path = artifact.manifest, f"{artifact.address}/{MANIFEST}"
    # The seal is of what the manifest says; another spelling of the same (1e5 for 100000.0) is a change as well.
    if artifact.store.get(path) != canonical_json(artifact.store.get_json(path)):
        yield f"{path}: the manifest's bytes were altered"
    if content_digest(manifest.files) != manifest.content_digest:
        yield f"{artifact.address}: the content digest is not the digest of the listed files"
    for name in sorted(manifest.files):
        with TemporaryDirectory(prefix="ft-verify-") as scratch:
            try:
                artifact.path(name, Path(scratch))
            except CorruptArtifact as error:
                yield error.what


def _input_findings(artifacts: Artifacts, manifest: Manifest) -> Iterator[str]:
    recorded = manifest.identity.get("inputs", {})
    for name, ref in sorted(manifest.inputs.items()):
        if recorded.get(name) != ref.digest:
            yield f"{manifest.address}: input {name} is not the one its fingerprint was computed from"
        try:
            found = _look_up(artifacts, Address.parse(ref.address))
        except CorruptArtifact:
            continue  # Its own findings say so.
        if found is not None and ref.digest not in _digests(found[0]):
            yield f"{manifest.address}: input {name} ({ref.address}) has changed since it was used"


def _digests(manifest: Manifest) -> set[str]:
    """What an input's digest may be: of its content or, where only its tokenizer counts, of that."""
    facts = manifest.facts
    keys = ("tokenizer_digest", "template_digest")
    tokenizer = {digest({key: facts[key] for key in keys})} if all(key in facts for key in keys) else set()
    return {manifest.content_digest} | tokenizer
