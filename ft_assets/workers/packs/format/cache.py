"""A pack in a bucket: each file is fetched into the machine's cache when it is first requested.

Files in the cache are not locked. A file removed to make room stays usable for processes that have mapped it, and is
fetched again on the next request. So a pack may be larger than the cache.
"""

from collections.abc import Iterable
from pathlib import Path

from ft_assets.workers.packs.format.prefetch import Prefetch
from ft_resources.artifacts import Artifact
from ft_resources.file_cache import FileCache


class CachedFiles:
    """The files of ``artifact`` for ``Pack.open``; read in place if the store is on this machine's disk.

    A training reads windows in random order, so a pack that does not fit into ``cache`` is fetched repeatedly.
    """

    def __init__(self, artifact: Artifact, cache: FileCache) -> None:
        self._artifact, self._cache = artifact, cache
        self._in_place: dict[str, Path] = {}
        self._prefetch: Prefetch | None = None

    def prefetch(self, names: Iterable[str]) -> Prefetch:
        """Fetch files in the background, in this order, until the result is closed; it is a context manager.

        ``Pack.names`` lists the files that windows need. Half of the cache may be fetched ahead of ``path``. A failed
        fetch raises when the file is read. Only one prefetch runs at a time: another call closes the previous one. A
        pack on local disk is read in place, so nothing is fetched.
        """
        if self._prefetch is not None:
            self._prefetch.close()
        files = self._artifact.manifest.files
        wanted = (name for name in (() if self._is_local else names) if name in files)
        self._prefetch = Prefetch(wanted, self._fetched, lambda name: files[name].size, self._cache.limit // 2)
        return self._prefetch

    def path(self, name: str) -> Path:
        """A complete local file with the content that the manifest promises; its hash is checked on arrival.

        Raises FileNotFoundError for a file that the artifact does not have, CorruptArtifact if the store's is damaged,
        StoreUnavailable if the disk has no room for it.
        """
        if name not in self._artifact.manifest.files:
            raise FileNotFoundError(f"{self._artifact.address} has no file {name}")
        if self._is_local:
            if name not in self._in_place:
                self._in_place[name] = self._fetched(name)
            return self._in_place[name]
        if self._prefetch is not None:
            self._prefetch.read(name)
        return self._fetched(name)

    @property
    def _is_local(self) -> bool:
        return self._artifact.store.root is not None

    def _fetched(self, name: str) -> Path:
        return self._cache.path(self._artifact, name)
