"""The files of an artifact at a server, in place of a store."""

from pathlib import Path

from ft_assets.remote.connection import Connection


class RemoteFiles:
    """What ``Artifact`` needs of a store.

    Args:
        adapter: whose files they are.
        base: whether they are those of its base model instead.
    """

    def __init__(self, connection: Connection, adapter: str, *, base: bool) -> None:
        self._connection, self._adapter, self._base = connection, adapter, base

    def local_path(self, path: str) -> None:
        """No file is on this machine."""

    def download(self, path: str, target: Path) -> None:
        """Copy the file at ``path``, which is ADDRESS/WRITER/NAME, to ``target``."""
        name = path.split("/", 4)[4]
        sent = {"address": self._adapter, "name": name, "base": self._base}
        self._connection.download("/v1/ft/adapters/file", sent, target)
