"""Where the objects of a store lie: the store's own records at its root, and the data of its tenants.

Every caller writes ``names/…`` and ``<tenant>/…``, whatever the layout. A store keeps the layout it was created with,
which its marker names (``ft_resources/store_marker.py``).
"""

from enum import IntEnum

MARKER = "store.json"
"""The object at the root that marks a store."""
ROOT_FOLDERS = frozenset(
    {
        *("names", "open_submissions", "open_attempts", "open_jobs", "notices_due", "unreferenced_since"),
        *("retiring", "retrainings"),
    }
)
"""The store's own folders, see ``ft_assets/records/names.py``. The name of a further one needs an underscore, which no
tenant's name has: there may be a tenant of any other name."""
_OWN = ROOT_FOLDERS | {MARKER}
TENANTS = "tenants"
"""The folder of all tenants' data in a new store."""


class Layout(IntEnum):
    """A layout, by the number in a store's marker."""

    BESIDE = 1
    """Tenants' folders are at the root, beside the store's own: every store from before there was another layout."""
    BELOW = 2
    """Tenants' folders are below ``tenants/``, apart from the store's own whatever a tenant is called."""

    @property
    def prefix(self) -> str:
        """What precedes a tenant's name: "" or a folder with a slash."""
        return f"{TENANTS}/" if self is Layout.BELOW else ""

    def place(self, path: str) -> str:
        """Where the object or folder that callers call ``path`` lies below the root."""
        if self is Layout.BESIDE or path.partition("/")[0] in _OWN:
            return path
        return self.prefix + path

    def path(self, place: str) -> str:
        """The opposite of ``place``."""
        return place.removeprefix(self.prefix)
