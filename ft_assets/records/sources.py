"""Where datasets' rows come from, and what was pulled from there: create-only records."""

from datetime import UTC, datetime
from typing import Any, ClassVar

from pydantic import Field

from ft_assets.records.names import SOURCE
from ft_assets.records.tombstones import Subject, find_tombstone
from ft_assets.settings.dataset.policy import DatasetPolicy, policy_of
from ft_assets.settings.dataset.source import Source
from ft_assets.settings.keys import DatasetKey
from ft_resources.canonical import digest
from ft_resources.records import Record
from ft_resources.store import Store


class Watch(Record):
    """A person set where a dataset's rows come from, or ended its watch."""

    WHAT: ClassVar[str] = "the record of a dataset's source"

    tenant: str
    name: str = Field(description="Name of the dataset, without tenant and version.")
    policy: dict[str, Any] | None = Field(description="The dataset policy with its source; null: no longer watched.")
    actor: str = Field(description="Who said it.")
    at: str = Field(description="UTC, ISO 8601.")

    @property
    def dataset(self) -> str:
        """``tenant.name``."""
        return f"{self.tenant}.{self.name}"

    def settled(self) -> DatasetPolicy:
        """The policy with its source."""
        return policy_of(self.policy or {})

    def source(self) -> Source | None:
        """Where the rows come from; None if it is no longer watched."""
        return self.settled().source


class Pull(Record):
    """The result of pulling a source's rows at one time."""

    WHAT: ClassVar[str] = "the record of rows pulled from a source"

    rows: str = Field(description="What names the rows, see ``rows_key``.")
    seen: str = Field(description="What was there, as the source says it.")
    version: str = Field(default="", description="Key of the version with these rows; empty: they were refused.")
    refused: str = Field(default="", description="Why the rows cannot be used.")
    actor: str = Field(description="Who pulled them.")
    at: str = Field(description="UTC, ISO 8601.")


def now() -> str:
    """The time as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def watches(store: Store) -> list[Watch]:
    """The watched sources by dataset, without those of deleted tenants, whose data may not be copied any more. Raises
    CorruptArtifact for a record that cannot be read."""
    last: dict[tuple[str, str], DatasetKey] = {}
    for text in SOURCE.keys(store):
        key = DatasetKey.parse(text)
        known = last.get((key.tenant, key.name))
        if known is None or known.version < key.version:
            last[key.tenant, key.name] = key
    found = (Watch.get(store, SOURCE.path(str(key))) for _, key in sorted(last.items()))
    gone = {tenant for tenant, _ in last if find_tombstone(store, Subject.of_tenant(tenant))}
    return [watch for watch in found if watch.policy is not None and watch.tenant not in gone]


def find_watch(store: Store, dataset: str) -> Watch | None:
    """How ``tenant.name`` is watched; None if it is not."""
    return next((watch for watch in watches(store) if watch.dataset == dataset), None)


def record_watch(store: Store, watch: Watch) -> bool:
    """Record the newest watch; False if it equals the last one."""
    key = DatasetKey(tenant=watch.tenant, name=watch.name, version=1)
    last: Watch | None = None
    while True:
        path = SOURCE.path(str(key))
        present = Watch.find(store, path)
        if present is None:
            if (last.policy if last else None) == watch.policy:
                return False
            if watch.create(store, path):
                return True
            continue
        last, key = present, DatasetKey(tenant=key.tenant, name=key.name, version=key.version + 1)


def rows_key(watch: Watch, seen: str) -> str:
    """Key of the rows of ``watch`` while its source reports ``seen``, 64 hex characters."""
    return digest({"policy": watch.policy, "seen": seen})


def last_pull(store: Store, watch: Watch) -> Pull | None:
    """The last pull, under any policy."""
    names = sorted(store.names(_folder(watch)))
    return Pull.get(store, f"{_folder(watch)}/{names[-1]}") if names else None


def record_pull(store: Store, watch: Watch, pull: Pull) -> None:
    """Record a pull as the last one."""
    number = len(list(store.names(_folder(watch)))) + 1
    while not pull.create(store, f"{_folder(watch)}/{number:06d}.json"):
        number += 1


def _folder(watch: Watch) -> str:
    return f"{watch.tenant}/pulls/{watch.name}"
