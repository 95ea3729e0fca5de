"""A pack that lies in a bucket: its files come into the machine's cache one by one, when they are first asked for.

Nothing is held there: what is removed to make room stays usable for those who have mapped it, and is fetched again for
those who ask again. So a pack may be larger than the cache.
"""

from collections.abc import Iterable
from pathlib import Path

from ft_assets.packs.format.prefetch import Prefetch
from ft_resources.artifacts import Artifact
from ft_resources.file_cache import FileCache


class CachedFiles:
    """The files of ``artifact`` for ``Pack.open``; in place where the store is this machine's disk.

    A training reads its windows in random order, so a pack that does not fit into ``cache`` is fetched again and again.
    """

    def __init__(self, artifact: Artifact, cache: FileCache) -> None:
        self._artifact, self._cache = artifact, cache
        self._in_place: dict[str, Path] = {}
        self._prefetch: Prefetch | None = None

    def prefetch(self, names: Iterable[str]) -> Prefetch:
        """Fetch files in the background, in this order, until the result is closed; it is a context manager.

        ``Pack.names`` says which files windows need. Half of the cache may be fetched ahead of ``path``. A file that
        cannot be fetched is an error where it is read. There is one at a time: another call closes the one before. A
        pack on local disk is read in place, so nothing is fetched.
        """
        if self._prefetch is not None:
            self._prefetch.close()
        files = self._artifact.manifest.files
        wanted = (name for name in (() if self._is_local else names) if name in files)
        self._prefetch = Prefetch(wanted, self._fetched, lambda name: files[name].size, self._cache.limit // 2)
        return self._prefetch

    def path(self, name: str) -> Path:
        """A whole local file with the content that the manifest promises; its hash is checked when it comes in.

        Raises FileNotFoundError for a file that the artifact does not have, CorruptArtifact where the store's is
        damaged, StoreUnavailable where the disk has no room for it.
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
