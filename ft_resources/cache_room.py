"""Eviction for a file cache that several processes share: least recently used first, never a file in use."""

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Copy:
    """A file in the cache, complete or partial, its size in bytes, and the start of its last use (ns)."""

    path: Path
    size: int
    used: int


def make_room(root: Path, size: int, limit: int, fetching: Callable[[str], AbstractContextManager[None]]) -> None:
    """Remove copies from ``<root>/<tenant>/`` until ``size`` more bytes are within ``limit`` and fit the disk.

    Files in use stay, so there may be too little room afterwards. ``fetching(sha256)`` raises BlockingIOError if a
    process is fetching that file; abandoned partial files are removed first.
    """
    copies = [copy for copy in _copies(root) if not _abandoned(copy.path, fetching)]
    excess = sum(copy.size for copy in copies) + size - limit
    for copy in sorted((copy for copy in copies if not copy.path.name.startswith(".")), key=lambda copy: copy.used):
        if excess <= 0 and shutil.disk_usage(root).free >= size:
            return
        if _removed(copy.path):
            excess -= copy.size


def _copies(root: Path) -> Iterator[_Copy]:
    for tenant in root.glob("[!.]*"):
        for path in tenant.iterdir():
            with suppress(FileNotFoundError):
                found = path.lstat()
                if not stat.S_ISDIR(found.st_mode):
                    yield _Copy(path=path, size=found.st_size, used=found.st_atime_ns)


def _abandoned(path: Path, fetching: Callable[[str], AbstractContextManager[None]]) -> bool:
    """Remove a partial file whose process was killed; whether it was one."""
    named = _SHA256.search(path.name)
    if not path.name.startswith(".") or named is None:
        return False
    try:
        with fetching(named.group()):
            path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    return True


def _removed(path: Path) -> bool:
    """Remove a file unless a process has it locked."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:
        # A link, or unreadable for this user: not a file of this cache.
        path.unlink(missing_ok=True)
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file).st_ino == path.lstat().st_ino:
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True
