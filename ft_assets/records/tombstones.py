"""Tombstones: who deleted what, why, and until when it can be restored.

A subject (a dataset version, an adapter, a tenant) has a short log of create-only records,
``<tenant>/tombstones/<subject>/<seq>.json``; the last one counts. Each is sealed and names its predecessor's digest,
so an altered, removed or inserted record is an error and never a restoration.

From its deletion on, nothing new is made from the subject. Its bytes are removed after the grace period
(``ft collect``); this record and the manifests remain.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Literal

from pydantic import Field

from ft_assets.records.chained_log import ChainedLog, SealedRecord
from ft_assets.records.names import DATASET
from ft_assets.settings.keys import DatasetKey, check_part
from ft_assets.settings.ungated import UNGATED
from ft_resources.artifacts import MANIFEST, Address, Artifact
from ft_resources.canonical import sha256_bytes
from ft_resources.errors import Deleted, UserError
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
        """Folder of its log."""
        return f"{_logs(self.tenant)}/{self.kind}-{self.name.rsplit('/', 1)[-1]}"

    @classmethod
    def dataset(cls, key: DatasetKey) -> "Subject":
        return cls(kind="dataset", name=str(key))

    @classmethod
    def adapter(cls, address: Address) -> "Subject":
        if address.asset not in ("adapter", UNGATED):
            raise UserError(
                f"this is a {address.asset}, and only datasets and adapters are deleted",
                where=str(address),
                remedy="Delete the dataset version that it was made of: ft delete DATASET",
            )
        return cls(kind="adapter", name=str(address))

    @classmethod
    def of_tenant(cls, name: str) -> "Subject":
        return cls(kind="tenant", name=check_part(name, "tenant name"))


class Tombstone(SealedRecord):
    """One record of a subject's log."""

    WHAT: ClassVar[str] = "the tombstone"

    version: Literal[1] = 1
    kind: Kind
    name: str = Field(description="Dataset key, address, or name of the tenant.")
    action: Literal["delete", "restore"]
    actor: str = Field(min_length=1, description="Who.")
    reason: str = Field(min_length=1, description="Why.")
    at: str = Field(description="UTC, ISO 8601.")
    grace_days: int = Field(ge=0, description="Days until the bytes may go.")
    previous: str = Field(default="", description="sha256 of the record before this one, empty for the first.")

    def sealed(self) -> "Tombstone":
        return self.model_copy(update={"seal": self.expected_seal})

    @property
    def subject(self) -> Subject:
        return Subject(kind=self.kind, name=self.name)

    @property
    def path(self) -> str:
        return f"{self.subject.folder}/{self.seq:04d}.json"

    @property
    def due(self) -> datetime:
        """End of the grace period."""
        return datetime.fromisoformat(self.at) + timedelta(days=self.grace_days)

    def sentence(self) -> str:
        return f"deleted by {self.actor} on {self.at[:10]} ({self.reason})"


def find_tombstone(store: Store, subject: Subject) -> Tombstone | None:
    """The subject's tombstone, None if it was never deleted or was restored. Raises CorruptArtifact."""
    last = _last(store, subject)
    return last if last is not None and last.action == "delete" else None


def delete(
    store: Store, subject: Subject, *, actor: str, reason: str, grace_days: int = GRACE_DAYS
) -> tuple[Tombstone, bool]:
    """Create a tombstone; if one exists, returns that one and False.

    Raises UserError for a subject that does not exist, and for an empty reason.
    """
    _require_there(store, subject)
    standing = find_tombstone(store, subject)
    if standing is not None:
        return standing, False
    return _append(store, subject, "delete", actor, reason, grace_days), True


def restore(store: Store, subject: Subject, *, actor: str, reason: str, now: datetime | None = None) -> Tombstone:
    """Undo a deletion. Raises UserError if there is none, or if its grace period is over."""
    standing = find_tombstone(store, subject)
    if standing is None:
        raise UserError(f"the {subject} is not deleted", where=str(subject), remedy="There is nothing to restore.")
    if (now or datetime.now(UTC)) >= standing.due:
        raise UserError(
            f"the {subject} was {standing.sentence()}, and the grace of {standing.grace_days} days is over",
            where=standing.path,
            remedy="Its bytes may already be erased: add or create it again.",
        )
    return _append(store, subject, "restore", actor, reason, 0)


def all_tombstones(store: Store) -> Iterator[Tombstone]:
    """All tombstones in force in the store. Raises CorruptArtifact for an unreadable one."""
    for tenant in store.tenants():
        for path in log_folders(store, tenant):
            last = read_log(store, path)
            if last is not None and last.action == "delete":
                yield last


def log_folders(store: Store, tenant: str) -> set[str]:
    """The folders of all subjects of a tenant that were ever deleted."""
    return {f"{_logs(tenant)}/{folder}" for folder in store.folders(_logs(tenant))}


def _logs(tenant: str) -> str:
    return f"{tenant}/tombstones"


def require_dataset_alive(store: Store, key: DatasetKey) -> None:
    """Raise Deleted if the dataset version or its tenant has a tombstone."""
    require_not_deleted(store, Subject.dataset(key))
    require_tenant_alive(store, key.tenant)


def require_tenant_alive(store: Store, tenant: str) -> None:
    """Raise Deleted if the tenant has a tombstone."""
    require_not_deleted(store, Subject(kind="tenant", name=tenant))


def require_alive(store: Store, adapter: Artifact) -> None:
    """Raise Deleted if the adapter, its dataset version or its tenant has a tombstone."""
    require_not_deleted(store, Subject.adapter(adapter.address))
    key = DatasetKey.parse(str(adapter.manifest.identity["params"]["dataset"]))
    require_dataset_alive(store, key)


def require_not_deleted(store: Store, subject: Subject) -> None:
    """Raise Deleted if the subject has a tombstone."""
    tombstone = find_tombstone(store, subject)
    if tombstone is not None:
        raise Deleted(str(subject), tombstone.sentence(), tombstone.due.date().isoformat())


def _require_there(store: Store, subject: Subject) -> None:
    there = {
        "dataset": lambda: DATASET.exists(store, subject.name),
        "adapter": lambda: store.exists(f"{subject.name}/{MANIFEST}"),
        "tenant": lambda: subject.name in store.tenants(),
    }
    if not there[subject.kind]():
        raise UserError(f"there is no {subject}", where=str(subject), remedy="Check the name: nothing was deleted.")


def _append(
    store: Store, subject: Subject, action: Literal["delete", "restore"], actor: str, reason: str, grace_days: int
) -> Tombstone:
    if not reason.strip():
        raise UserError(f"to {action} needs a reason", where=str(subject), remedy="Give a reason; it is recorded.")
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
    winner = _log(store, subject.folder).append(record)
    if winner != record:
        raise UserError(
            f"concurrent change by {winner.actor}: {winner.action} at {winner.at} ({winner.reason})",
            where=winner.path,
            remedy="Check it, and repeat the request if still needed.",
        )
    return record


def _last(store: Store, subject: Subject) -> Tombstone | None:
    return read_log(store, subject.folder)


def read_log(store: Store, folder: str) -> Tombstone | None:
    """The last record of the log in ``folder``, after checking all; None for an empty log. Raises CorruptArtifact for
    a damaged or missing record: a flipped byte must not restore what was deleted."""
    records, _ = _log(store, folder).read()
    return records[-1] if records else None


def _log(store: Store, folder: str) -> ChainedLog[Tombstone]:
    return ChainedLog(store=store, folder=folder, kind=Tombstone, digits=4)
