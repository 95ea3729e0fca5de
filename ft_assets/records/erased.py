"""What remains of an artifact whose bytes were erased: its manifest with every hash, and the tombstone that caused it.

The record is at ``<address>/erased/<writer>.json``. The manifest itself is deleted, so the artifact no longer exists
and may be made again. Its lineage stays readable.
"""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from ft_assets.records.tombstones import Tombstone
from ft_resources.artifacts import MANIFEST, Address, Artifact, Manifest
from ft_resources.canonical import digest
from ft_resources.errors import CorruptArtifact
from ft_resources.records import RESTORE, Record
from ft_resources.store import Store

FOLDER = "erased"


class Erased(Record):
    """One erasure."""

    WHAT: ClassVar[str] = "the record of an erasure"

    manifest: Manifest = Field(description="As it was.")
    tombstone: str = Field(min_length=1, description="Path of the tombstone.")
    sentence: str = Field(min_length=1, description="Who deleted it, when and why.")
    at: str = Field(description="When the bytes were erased; UTC, ISO 8601.")


def record_erasure(store: Store, artifact: Artifact, tombstone: Tombstone, at: str) -> None:
    """Record that the artifact's bytes will be removed. Idempotent."""
    record = Erased(manifest=artifact.manifest, tombstone=tombstone.path, sentence=tombstone.sentence(), at=at)
    path = f"{artifact.address}/{FOLDER}/{artifact.manifest.writer}.json"
    record.create(store, path)


def remove_bytes(store: Store, address: Address | str) -> int:
    """Remove everything below ``address`` except erasure records; returns the number of removed objects. The manifest
    goes first, which hides the artifact."""
    store.delete(f"{address}/{MANIFEST}")
    kept = f"{address}/{FOLDER}/"
    paths = [entry.path for entry in store.entries(str(address)) if not entry.path.startswith(kept)]
    for path in paths:
        store.delete(path)
    return len(paths)


def find_erased(store: Store, address: Address | str) -> Erased | None:
    """The last erasure at ``address``, None if there is none. Raises CorruptArtifact for a damaged record."""
    return max(_erasures(store, str(address)), key=lambda record: record.at, default=None)


def _erasures(store: Store, address: str) -> Iterator[Erased]:
    for entry in store.entries(f"{address}/{FOLDER}"):
        record = Erased.get(store, entry.path)
        manifest = record.manifest
        sealed = manifest.seal == manifest.expected_seal if manifest.seal else True
        if str(manifest.address) != address or digest(manifest.identity) != manifest.fingerprint or not sealed:
            raise CorruptArtifact("the record of an erasure was altered", where=entry.path, remedy=RESTORE)
        yield record
