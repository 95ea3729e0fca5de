"""The marker of a store: one object at its root, which tells an empty store from a place where none is.

Without it, a disk that is not mounted or a misspelt prefix would be read as a store with nothing in it. It lies beside
the folders of tenants and records, where no listing looks; no tenant's name has a dot.
"""

import sys
from datetime import UTC, datetime

from ft_resources.errors import NoStore
from ft_resources.store import Store

MARKER = "store.json"
# What file systems put at their own root.
_NOT_OURS = {"lost+found"}


def open_store(url: str, *, create: bool = False) -> Store:
    """The store at ``url``. With ``create`` one is created where none is, which is said on stderr.

    A store from before there were markers is recognised by its folders, and gets a marker with ``create``. Raises
    NoStore where there is none; StoreUnavailable, also where it cannot be created; UserError for an invalid URL.
    """
    store = Store(url, create=create)
    if store.exists(MARKER):
        return store
    is_new = not set(store.folders()) - _NOT_OURS
    if is_new and not create:
        raise NoStore(store.url)
    if create and store.create_json(MARKER, {"marked_at": datetime.now(UTC).isoformat()}) and is_new:
        print(f"created a new store at {store.url}", file=sys.stderr)
    return store
