"""A pack that lies in a bucket: its files come into a local folder one by one, when they are first asked for.

Several processes may share the folder: a file appears in it whole and verified, one process fetches it while others
wait, and what is removed to stay within the limit stays usable for those who have mapped it.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ft_assets.datasets.engine.local import whole_number
from ft_assets.packs.format.prefetch import Prefetch
from ft_resources.artifacts import Artifact

_LIMIT_MB = 65_536


class CachedFiles:
    """The files of ``artifact`` for ``Pack.open``; in place where the store is this machine's disk.

    Args:
        folder: where copies go; one folder may serve several packs.
        limit: bytes that the copies in ``folder`` may have together, of all processes: the shards that were opened
            longest ago make room for others. None takes FT_PACK_CACHE_MB, else 64 GiB. A training reads its windows
            in random order, so a pack that does not fit is fetched again and again.
    """

    def __init__(self, artifact: Artifact, folder: Path, limit: int | None = None) -> None:
        self._artifact, self._folder = artifact, folder
        self._limit = whole_number("FT_PACK_CACHE_MB", _LIMIT_MB, at_least=1) << 20 if limit is None else limit
        self._in_place: dict[str, Path] = {}
        self._prefetch: Prefetch | None = None

    def prefetch(self, names: Iterable[str]) -> Prefetch:
        """Fetch files in the background, in this order, until the result is closed; it is a context manager.

        ``Pack.names`` says which files windows need. Half of the limit may be fetched ahead of ``path``. A file that
        cannot be fetched is an error where it is read. There is one at a time: another call closes the one before. A
        pack on local disk is read in place, so nothing is fetched.
        """
        if self._prefetch is not None:
            self._prefetch.close()
        files = self._artifact.manifest.files
        wanted = (name for name in names if name in files and not self._is_local(name))
        self._prefetch = Prefetch(wanted, self._fetched, lambda name: files[name].size, self._limit // 2)
        return self._prefetch

    def path(self, name: str) -> Path:
        """A whole local file with the content that the manifest promises; its hash is checked when it comes in.

        Raises FileNotFoundError for a file that the artifact does not have, CorruptArtifact where the store's is
        damaged.
        """
        if name not in self._artifact.manifest.files:
            raise FileNotFoundError(f"{self._artifact.address} has no file {name}")
        if self._is_local(name):
            if name not in self._in_place:
                self._in_place[name] = self._artifact.path(name, self._folder)
            return self._in_place[name]
        if self._prefetch is not None:
            self._prefetch.read(name)
        return self._fetched(name)

    def _is_local(self, name: str) -> bool:
        return self._artifact.store.local_path(self._artifact.location(name)) is not None

    def _fetched(self, name: str) -> Path:
        """The file's copy, made unless it is there."""
        target = self._folder / self._artifact.address.fingerprint / name
        size = self._artifact.manifest.files[name].size
        if not _use(target, size):
            target.parent.mkdir(parents=True, exist_ok=True)
            with _only_process(target.parent / f".{_shard_of(target.name)}.lock"):
                if not _use(target, size):
                    target.unlink(missing_ok=True)
                    self._make_room(size, target)
                    self._artifact.fetch(name, target)
        return target

    def _make_room(self, size: int, wanted: Path) -> None:
        """Remove the shards that were opened longest ago until ``size`` more bytes fit; never that of ``wanted``."""
        shards = _copies(self._folder)
        excess = sum(shard.size for shard in shards) + size - self._limit
        for shard in sorted(shards, key=lambda shard: shard.used):
            if excess <= 0:
                return
            if shard.folder == wanted.parent and shard.name == _shard_of(wanted.name):
                continue
            for path in shard.files:
                path.unlink(missing_ok=True)
            excess -= shard.size


@dataclass(frozen=True, kw_only=True, slots=True)
class _Copies:
    """What lies in the cache of one shard: its files, their bytes, and when one of them was last opened (ns)."""

    folder: Path
    name: str
    files: list[Path]
    size: int
    used: int


def _copies(folder: Path) -> list[_Copies]:
    found: dict[tuple[Path, str], list[tuple[Path, os.stat_result]]] = {}
    for path in folder.rglob("[!.]*"):
        try:
            state = path.stat()
        except FileNotFoundError:
            # Another process has just removed it.
            continue
        if path.is_file():
            found.setdefault((path.parent, _shard_of(path.name)), []).append((path, state))
    return [
        _Copies(
            folder=parent,
            name=name,
            files=[path for path, _ in files],
            size=sum(state.st_size for _, state in files),
            used=max(state.st_mtime_ns for _, state in files),
        )
        for (parent, name), files in found.items()
    ]


def _shard_of(file: str) -> str:
    """``00003`` of ``00003.input_ids.npy``: what is fetched by one process at a time, and removed together."""
    return file.split(".")[0]


def _use(path: Path, size: int) -> bool:
    """Whether a whole file is there; its time then says that it is in use."""
    try:
        if path.stat().st_size != size:
            return False
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _only_process(lock: Path) -> Iterator[None]:
    """Inside, no other process and no other thread is; the operating system frees it where one dies."""
    with lock.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
