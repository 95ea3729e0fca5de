"""Verify that every tombstone exists unchanged."""

from collections.abc import Iterator

from ft_assets.records.erased import FOLDER, find_erased
from ft_assets.records.tombstones import read_log
from ft_resources.errors import CorruptArtifact
from ft_resources.store import Store


def tombstone_findings(store: Store) -> Iterator[str]:
    """Findings about tombstones that were altered, or are missing although bytes were erased because of them.

    A log that disappeared completely before anything was erased leaves no trace: what it covered still exists.
    """
    for tenant in store.tenants():
        for folder in store.folders(f"{tenant}/tombstones"):
            try:
                read_log(store, f"{tenant}/tombstones/{folder}")
            except CorruptArtifact as error:
                yield f"{error.where}: {error.what}"
        addresses = {
            entry.path.split(f"/{FOLDER}/")[0] for entry in store.entries(tenant) if f"/{FOLDER}/" in entry.path
        }
        for address in sorted(addresses):
            try:
                erased = find_erased(store, address)
            except CorruptArtifact as error:
                yield f"{error.where}: {error.what}"
                continue
            if erased is not None and not store.exists(erased.tombstone):
                yield f"{erased.tombstone}: the tombstone is missing for which {address} was erased"
