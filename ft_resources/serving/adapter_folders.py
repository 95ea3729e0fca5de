"""Copies of adapters on a disk that model servers read, by content digest.

    <root>/<digest>     a complete, verified adapter, which never changes <root>/.<digest>…   one that is being fetched
    or removed, never given to a server

The name of a folder is the digest of what is in it, so a folder can be verified without the store. Folders in use are
locked: processes that share ``root`` do not remove each other's. The operating system releases the locks however a
process ends.
"""

import fcntl
import os
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from ft_resources.artifacts import EXPLAINING_FOLDERS, Artifact, FileEntry, content_digest
from ft_resources.errors import CorruptArtifact, StoreUnavailable, first_line
from ft_resources.serving.errors import BadAdapter
from ft_resources.serving.finite import require_finite

_DIGEST = re.compile(r"[0-9a-f]{64}")
# Another process's copy may be evicted before it is locked here.
_TRIES = 3


class AdapterFolders:
    """The folders below ``root``, which together hold about ``limit`` bytes at most beside those that are in use."""

    def __init__(self, root: Path, limit: int) -> None:
        self._root, self._limit = root.absolute(), limit
        self._held: dict[str, int] = {}
        self._lock = threading.Lock()

    def folder(self, digest: str, find: Callable[[], Artifact]) -> Path:
        """The folder of the adapter with this content digest; it stays until ``keep`` is called without it.

        ``find`` is asked for the artifact only where there is no whole copy, so earlier copies need no store. Raises
        what it raises, CorruptArtifact, BadAdapter for numbers that are not finite, and StoreUnavailable for a full
        disk.
        """
        if not _DIGEST.fullmatch(digest):
            raise CorruptArtifact(f"{digest!r} is not a content digest", where="adapter")
        target = self._root / digest
        if digest in self._held:
            return target
        if not self._hold(digest):
            artifact = find()
            if artifact.digest != digest:
                raise CorruptArtifact(
                    f"its content is {artifact.digest[:16]}, and {digest[:16]} was promoted",
                    where=str(artifact.address),
                    remedy="Restore the manifest from the bucket's versions or a backup: ft verify says more.",
                )
            try:
                held = any(self._fetch(artifact, target) for _ in range(_TRIES))
            except OSError as error:
                raise StoreUnavailable(
                    f"the copy cannot be written: {first_line(error)}",
                    where=str(self._root),
                    remedy="Free some space there, or let it be written to.",
                ) from error
            if not held:
                raise CorruptArtifact("the copy is damaged, and in use", where=str(target), remedy="Try again later.")
        try:
            require_finite(target)
        except BadAdapter:
            self.doubt(digest)
            raise
        return target

    def keep(self, digests: Collection[str], *, but_not: Collection[str] = ()) -> bool:
        """Release all others; the least recently used of them are removed until the rest fits, and ``but_not`` at once.
        Returns whether none of ``but_not`` is left: one in use stays."""
        with self._lock:
            for digest in self._held.keys() - set(digests):
                os.close(self._held.pop(digest))
        self._make_room(0, but_not)
        return not any((self._root / digest).exists() for digest in but_not)

    def doubt(self, digest: str) -> None:
        """Verify the folder again at its next use: a server reported that it is damaged."""
        with self._lock:
            if digest in self._held:
                os.close(self._held.pop(digest))

    def _fetch(self, artifact: Artifact, target: Path) -> bool:
        """Copy the artifact, and lock its folder; returns whether it is complete."""
        names = [name for name in sorted(artifact.manifest.files) if not name.startswith(EXPLAINING_FOLDERS)]
        if not self._root.is_dir():
            self._root.parent.mkdir(parents=True, exist_ok=True)
            self._root.mkdir(mode=0o700, exist_ok=True)
        self._make_room(sum(artifact.manifest.files[name].size for name in names), ())
        staged, held = _staged(target)
        try:
            for name in names:
                artifact.fetch(name, staged / name)
            if target.is_dir() and _digest_of(target) != target.name:
                _remove(target)
            # Another process may have fetched the same.
            with suppress(OSError):
                staged.rename(target)
            # While the copy is still locked as ``staged``: otherwise an eviction could remove it in between.
            return self._hold(target.name)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
            os.close(held)

    def _hold(self, digest: str) -> bool:
        """Lock the folder against removal, if it is complete, and record its use."""
        target = self._root / digest
        file = _locked(target, fcntl.LOCK_SH)
        if file is None:
            return False
        if _digest_of(target) != digest:
            os.close(file)
            return False
        os.utime(target)
        with self._lock:
            if digest in self._held:
                os.close(file)
            else:
                self._held[digest] = file
        return True

    def _make_room(self, size: int, unwanted: Collection[str]) -> None:
        """Remove what is not in use: leftovers and ``unwanted``, then the oldest, until ``size`` more bytes fit."""
        if not self._root.is_dir():
            return
        sizes: dict[Path, int] = {}
        for folder in self._root.iterdir():
            left = folder.name.startswith(".") and _DIGEST.match(folder.name[1:])
            if left or folder.name in unwanted:
                _remove(folder)
            elif _DIGEST.fullmatch(folder.name):
                sizes[folder] = _size_of(folder)
        excess = sum(sizes.values()) + size - self._limit
        for folder in sorted(sizes, key=_used):
            if excess <= 0:
                return
            if _remove(folder):
                excess -= sizes[folder]


def _staged(target: Path) -> tuple[Path, int]:
    """A new folder beside ``target``, and its lock: until it is locked, an eviction treats it as a leftover."""
    while True:
        staged = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        staged.mkdir()
        if (held := _locked(staged, fcntl.LOCK_SH)) is not None:
            return staged, held


def _locked(folder: Path, how: int) -> int | None:
    """Descriptor of the folder, locked; None if it does not exist, or is locked by others."""
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
        # It may have been removed before the lock was taken.
        if os.fstat(file).st_ino == folder.lstat().st_ino:
            return file
    except OSError:
        pass
    os.close(file)
    return None


def _remove(folder: Path) -> bool:
    """Remove the folder, unless somebody uses it."""
    file = _locked(folder, fcntl.LOCK_EX)
    if file is None:
        return False
    try:
        # Renamed first: no server is given a folder that loses its files.
        gone = folder.with_name(f".{folder.name.lstrip('.')[:64]}.{uuid.uuid4().hex}")
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        return True
    finally:
        os.close(file)


def _digest_of(folder: Path) -> str:
    """The content digest of the folder's files; "" if they cannot be read."""
    try:
        files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if not path.is_dir()}
        return content_digest({name: FileEntry.of(path) for name, path in files.items()})
    except OSError:
        return ""


def _size_of(folder: Path) -> int:
    with suppress(OSError):
        return sum(path.lstat().st_size for path in folder.rglob("*"))
    return 0


def _used(folder: Path) -> float:
    with suppress(OSError):
        return folder.lstat().st_mtime
    return 0.0
