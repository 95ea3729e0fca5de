"""The marker of a store: one object at its root, which tells an empty store from a place where none is, and names the
store's layout.

Without it, a disk that is not mounted or a misspelt prefix would be read as a store with nothing in it. It lies beside
the store's folders, where no listing looks.
"""

import sys
from datetime import UTC, datetime
from typing import Any

from ft_resources.errors import CorruptArtifact, NoStore
from ft_resources.store import Store
from ft_resources.store_layout import MARKER, TENANTS, Layout

# What file systems put at their own root.
_NOT_OURS = {"lost+found"}


def open_store(url: str, *, create: bool = False) -> Store:
    """The store at ``url``. With ``create`` one is created where none is, which is said on stderr.

    A store from before there were markers is recognised by its folders, and gets a marker with ``create``. Raises
    NoStore where there is none; StoreUnavailable, also where it cannot be created; UserError for an invalid URL;
    CorruptArtifact for a marker that cannot be read, or that is missing where tenants' data lie apart.
    """
    store = Store(url, create=create)
    marker = store.find_json(MARKER)
    if marker is None:
        folders = set(store.root_folders()) - _NOT_OURS
        if not folders and not create:
            raise NoStore(store.url)
        if TENANTS in folders and not store.exists(MARKER):
            raise _lost(store)
        if create and store.create_json(MARKER, _told(Layout.BESIDE if folders else Layout.BELOW)) and not folders:
            print(f"created a new store at {store.url}", file=sys.stderr)
        # Another process may have been first.
        marker = store.find_json(MARKER) or {}
    store.layout = _layout(marker)
    return store


def _told(layout: Layout) -> dict[str, Any]:
    return {"marked_at": datetime.now(UTC).isoformat(), "layout": layout}


def _lost(store: Store) -> CorruptArtifact:
    """Taken for a store from before, this one would have no tenants' data, and new data would lie beside them."""
    return CorruptArtifact(
        f"the store has a folder {TENANTS!r} and no marker, which would say where its tenants' data lie",
        where=f"{store.url}/{MARKER}",
        remedy=f'Restore it from the bucket\'s versions or a backup, or write {{"layout": {Layout.BELOW}}} there; '
        f'{{"layout": {Layout.BESIDE}}} if {TENANTS!r} is a tenant of a store without a marker.',
    )


def _layout(marker: Any) -> Layout:
    """Markers without a layout are of stores from before there was more than one."""
    named = marker.get("layout", Layout.BESIDE) if isinstance(marker, dict) else None
    if named not in list(Layout):
        raise CorruptArtifact(
            f"the store's layout is {named!r}, which this version does not know",
            where=MARKER,
            remedy="Use the version that created the store or a later one, or restore this object from a backup.",
        )
    return Layout(named)
