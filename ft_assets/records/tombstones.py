"""Tombstones: who deleted what, why, and until when it can be taken back.

A subject (a dataset version, an adapter, a tenant) has a short log of create-only records,
``<tenant>/tombstones/<subject>/<seq>.json``; the last one counts. Each is sealed and names the digest of the one
before it, so that one which was altered, taken out or put in between is an error and never a restoration.

From the moment of a deletion nothing new is made of the subject; its bytes go when the grace is over (``ft collect``),
and what is left is this record and the manifests.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ft_assets.keys import DatasetKey, check_part
from ft_resources.artifacts import MANIFEST, Address, Artifact
from ft_resources.canonical import canonical_json, digest, sha256_bytes
from ft_resources.errors import CorruptArtifact, Deleted, UserError
from ft_resources.store import Store

GRACE_DAYS = 30
Kind = Literal["dataset", "adapter", "tenant"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What is deleted: a dataset version by its key, an adapter by its address, a tenant by its name."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def tenant(self) -> str:
        return self.name.split("/" if self.kind == "adapter" else ".")[0]

    @property
    def folder(self) -> str:
        """Where its log lies."""
        return f"{self.tenant}/tombstones/{self.kind}-{self.name.rsplit('/', 1)[-1]}"

    @classmethod
    def dataset(cls, key: DatasetKey) -> "Subject":
        return cls(kind="dataset", name=str(key))

    @classmethod
    def adapter(cls, address: Address) -> "Subject":
        if address.asset != "adapter":
            raise UserError(
                f"this is a {address.asset}, and only datasets and adapters are deleted",
                where=str(address),
                remedy="Delete the dataset version that it was made of: ft delete DATASET",
            )
        return cls(kind="adapter", name=str(address))

    @classmethod
    def of_tenant(cls, name: str) -> "Subject":
        return cls(kind="tenant", name=check_part(name, "tenant name"))


class Tombstone(BaseModel):
    """One record of a subject's log."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Literal[1] = 1
    kind: Kind
    name: str = Field(description="Dataset key, address, or name of the tenant.")
    seq: int = Field(ge=1)
    action: Literal["delete", "restore"]
    actor: str = Field(min_length=1, description="Who.")
    reason: str = Field(min_length=1, description="Why.")
    at: str = Field(description="UTC, ISO 8601.")
    grace_days: int = Field(ge=0, description="Days until the bytes may go.")
    previous: str = Field(default="", description="sha256 of the record before this one, empty for the first.")
    seal: str = Field(default="", description="Digest of all other fields.")

    @property
    def expected_seal(self) -> str:
        return digest(self.model_dump(mode="json", exclude={"seal"}))

    def sealed(self) -> "Tombstone":
        return self.model_copy(update={"seal": self.expected_seal})

    def data(self) -> bytes:
        """The bytes that are stored."""
        return canonical_json(self.model_dump(mode="json"))

    @property
    def subject(self) -> Subject:
        return Subject(kind=self.kind, name=self.name)

    @property
    def path(self) -> str:
        return f"{self.subject.folder}/{self.seq:04d}.json"

    @property
    def due(self) -> datetime:
        """When the grace is over."""
        return datetime.fromisoformat(self.at) + timedelta(days=self.grace_days)

    def sentence(self) -> str:
        return f"deleted by {self.actor} on {self.at[:10]} ({self.reason})"


def find_tombstone(store: Store, subject: Subject) -> Tombstone | None:
    """The subject's tombstone, None where it was never deleted, or restored. Raises CorruptArtifact."""
    last = _last(store, subject)
    return last if last is not None and last.action == "delete" else None


def delete(
    store: Store, subject: Subject, *, actor: str, reason: str, grace_days: int = GRACE_DAYS
) -> tuple[Tombstone, bool]:
    """Put up a tombstone; the second value is False where one stood already, which is then given.

    Raises UserError for a subject that does not exist, and where nobody says why.
    """
    _require_there(store, subject)
    standing = find_tombstone(store, subject)
    if standing is not None:
        return standing, False
    return _append(store, subject, "delete", actor, reason, grace_days), True


def restore(store: Store, subject: Subject, *, actor: str, reason: str, now: datetime | None = None) -> Tombstone:
    """Take a deletion back. Raises UserError where there is none, and where its grace is over."""
    standing = find_tombstone(store, subject)
    if standing is None:
        raise UserError(f"the {subject} is not deleted", where=str(subject), remedy="There is nothing to restore.")
    if (now or datetime.now(UTC)) >= standing.due:
        raise UserError(
            f"the {subject} was {standing.sentence()}, and the grace of {standing.grace_days} days is over",
            where=standing.path,
            remedy="Its bytes may be gone already: add or make it again.",
        )
    return _append(store, subject, "restore", actor, reason, 0)


def all_tombstones(store: Store) -> Iterator[Tombstone]:
    """Every standing tombstone of the store. Raises CorruptArtifact for one that cannot be read."""
    for tenant in store.folders():
        for folder in store.folders(f"{tenant}/tombstones"):
            path = f"{tenant}/tombstones/{folder}"
            last = read_log(store, path)
            if last is not None and last.action == "delete":
                yield last


def require_dataset_alive(store: Store, key: DatasetKey) -> None:
    """Raise Deleted where the dataset version, or its tenant, has a tombstone."""
    require_not_deleted(store, Subject.dataset(key))
    require_tenant_alive(store, key.tenant)


def require_tenant_alive(store: Store, tenant: str) -> None:
    """Raise Deleted where the tenant has a tombstone."""
    require_not_deleted(store, Subject(kind="tenant", name=tenant))


def require_alive(store: Store, adapter: Artifact) -> None:
    """Raise Deleted where the adapter, the dataset version it learned from or its tenant has a tombstone."""
    require_not_deleted(store, Subject.adapter(adapter.address))
    key = DatasetKey.parse(str(adapter.manifest.identity["params"]["dataset"]))
    require_dataset_alive(store, key)


def require_not_deleted(store: Store, subject: Subject) -> None:
    """Raise Deleted where the subject has a tombstone."""
    tombstone = find_tombstone(store, subject)
    if tombstone is not None:
        raise Deleted(str(subject), tombstone.sentence(), tombstone.due.date().isoformat())


def _require_there(store: Store, subject: Subject) -> None:
    there = {
        "dataset": lambda: store.exists(f"names/dataset/{subject.name}.json"),
        "adapter": lambda: store.exists(f"{subject.name}/{MANIFEST}"),
        "tenant": lambda: subject.name in store.folders(),
    }
    if not there[subject.kind]():
        raise UserError(f"there is no {subject}", where=str(subject), remedy="Check the name: nothing was deleted.")


def _append(
    store: Store, subject: Subject, action: Literal["delete", "restore"], actor: str, reason: str, grace_days: int
) -> Tombstone:
    if not reason.strip():
        raise UserError(f"to {action} needs a reason", where=str(subject), remedy="Say why; it is recorded.")
    last = _last(store, subject)
    record = Tombstone(
        kind=subject.kind,
        name=subject.name,
        seq=last.seq + 1 if last else 1,
        action=action,
        actor=actor,
        reason=reason.strip(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        grace_days=grace_days,
        previous=sha256_bytes(last.data()) if last else "",
    ).sealed()
    if not store.create(record.path, record.data()):
        winner = _last(store, subject)
        assert winner is not None
        if winner != record:
            raise UserError(
                f"{winner.actor} was faster: {winner.action} at {winner.at} ({winner.reason})",
                where=winner.path,
                remedy="Look at it, and ask again if it is still wanted.",
            )
    return record


def _last(store: Store, subject: Subject) -> Tombstone | None:
    return read_log(store, subject.folder, subject)


def read_log(store: Store, folder: str, subject: Subject | None = None) -> Tombstone | None:
    """The last record of the log in ``folder``, each checked; None where there is none. Raises CorruptArtifact for
    a damaged or missing one: what is deleted must not come back by a flipped byte."""
    last: Tombstone | None = None
    for seq, path in enumerate(sorted(entry.path for entry in store.entries(folder)), start=1):
        last = _read(store, path, seq, last, subject)
    return last


def _read(store: Store, path: str, seq: int, before: Tombstone | None, subject: Subject | None) -> Tombstone:
    """The record at ``path``, which follows ``before``. Raises CorruptArtifact."""
    try:
        data = store.get(path)
        record = Tombstone.model_validate_json(data)
        if record.path != path or (subject is not None and record.subject != subject):
            raise ValueError("the record belongs to another place")
    except (ValidationError, ValueError) as error:
        raise _bad("the tombstone cannot be read, or belongs to something else", path) from error
    if record.data() != data or record.seal != record.expected_seal:
        raise _bad("the tombstone was altered: it does not match its seal", path)
    if record.seq != seq:
        raise _bad("a tombstone is missing before this one", path)
    if record.previous != (sha256_bytes(before.data()) if before else ""):
        raise _bad("the tombstone does not follow the one before it, which was altered or exchanged", path)
    return record


def _bad(what: str, path: str) -> CorruptArtifact:
    return CorruptArtifact(what, where=path, remedy="Restore the object from the bucket's versions or a backup.")
