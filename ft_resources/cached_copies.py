"""Complete copies of files in a cache: marked once verified, and opened with a lock that keeps them from removal."""

import errno
import fcntl
import os
import stat
import time
from pathlib import Path

_UNTOUCHED_NS = 1_000_000_000 * 10**9
"""Modification time of complete files; any write changes it."""


def is_private(folder: Path) -> bool:
    """Whether it is a folder of this user that nobody else may write to."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def open_whole(path: Path, size: int, *, of_others: bool = False) -> int | None:
    """Descriptor of the file, locked against removal, or None if it is not complete. That it is used now is recorded in
    its time of access, unless it is ``of_others``, whose readers may be of any tenant: then a lock is not waited for,
    as one of them could keep it from all."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.EACCES):
            return None
        raise
    try:
        fcntl.flock(file, fcntl.LOCK_SH | (fcntl.LOCK_NB if of_others else 0))
        found, now = os.fstat(file), path.lstat()
        # It may have been removed, or fetched anew, before the lock was taken.
        if (found.st_dev, found.st_ino) == (now.st_dev, now.st_ino) and _is_untouched(found, size):
            if not of_others:
                os.utime(file, ns=(time.time_ns(), _UNTOUCHED_NS))
            kept, file = file, -1
            return kept
    except (FileNotFoundError, BlockingIOError):
        return None
    finally:
        if file >= 0:
            os.close(file)
    return None


def _is_untouched(found: os.stat_result, size: int) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_size == size and found.st_mtime_ns == _UNTOUCHED_NS


def seal(path: Path) -> None:
    """Mark a verified file as complete, and flush it to disk before others can see it."""
    with path.open("rb") as file:
        os.fchmod(file.fileno(), 0o444)
        os.utime(file.fileno(), ns=(time.time_ns(), _UNTOUCHED_NS))
        os.fsync(file.fileno())


def link(path: Path, target: Path) -> None:
    """Link the file under another name: a hard link if both are on one file system, else a symbolic link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path, target)
    except OSError:
        target.symlink_to(path)
