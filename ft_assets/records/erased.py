"""What is left of an artifact whose bytes were erased: its manifest with every hash, and which tombstone it was for.

The record lies at ``<address>/erased/<writer>.json``. The manifest itself is gone, so the artifact does not exist any
more and may be made again; its lineage can still be read.
"""

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ft_assets.erasure.tombstones import Tombstone
from ft_resources.artifacts import MANIFEST, Address, Artifact, Manifest
from ft_resources.canonical import canonical_json, digest
from ft_resources.errors import CorruptArtifact
from ft_resources.store import Store

FOLDER = "erased"


class Erased(BaseModel):
    """One erasure."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    manifest: Manifest = Field(description="As it was.")
    tombstone: str = Field(min_length=1, description="Path of the tombstone.")
    sentence: str = Field(min_length=1, description="Who deleted it, when and why.")
    at: str = Field(description="When the bytes went; UTC, ISO 8601.")


def record_erasure(store: Store, artifact: Artifact, tombstone: Tombstone, at: str) -> None:
    """Put down that the artifact's bytes go. Doing so twice is doing so once."""
    record = Erased(manifest=artifact.manifest, tombstone=tombstone.path, sentence=tombstone.sentence(), at=at)
    path = f"{artifact.address}/{FOLDER}/{artifact.manifest.writer}.json"
    store.create(path, canonical_json(record.model_dump(mode="json")))


def remove_bytes(store: Store, address: Address | str) -> int:
    """Remove everything below ``address`` but the records of erasures; how many objects went. The manifest goes first:
    from then on nobody finds the artifact."""
    store.delete(f"{address}/{MANIFEST}")
    kept = f"{address}/{FOLDER}/"
    paths = [entry.path for entry in store.entries(str(address)) if not entry.path.startswith(kept)]
    for path in paths:
        store.delete(path)
    return len(paths)


def find_erased(store: Store, address: Address | str) -> Erased | None:
    """The last erasure at ``address``, None where there was none. Raises CorruptArtifact for a damaged record."""
    return max(_erasures(store, str(address)), key=lambda record: record.at, default=None)


def _erasures(store: Store, address: str) -> Iterator[Erased]:
    for entry in store.entries(f"{address}/{FOLDER}"):
        remedy = "Restore the object from the bucket's versions or a backup."
        try:
            record = Erased.model_validate(store.get_json(entry.path))
        except ValidationError as error:
            raise CorruptArtifact("the record of an erasure cannot be read", where=entry.path, remedy=remedy) from error
        manifest = record.manifest
        sealed = manifest.seal == manifest.expected_seal if manifest.seal else True
        if str(manifest.address) != address or digest(manifest.identity) != manifest.fingerprint or not sealed:
            raise CorruptArtifact("the record of an erasure was altered", where=entry.path, remedy=remedy)
        yield record
