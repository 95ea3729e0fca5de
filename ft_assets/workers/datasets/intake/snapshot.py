"""Uploads, copied and hashed in one pass: the checked bytes are the stored bytes, even if a file changes meanwhile."""

import errno
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import BinaryIO

from ft_assets.workers.datasets.intake.kinds import HEAD_BYTES, check_head, kind_of
from ft_assets.workers.datasets.intake.spool import Role
from ft_resources.errors import BadData, UserError

# A subset of what the store allows in a path, short enough for every file system.
_FILE_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9._+=@-]{0,119}$")
_MOST, _MOST_BYTES, _MOST_ENDING = 120, 200, 24
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """A copied upload at ``path``, which no other process writes to; ``size`` in bytes.

    ``name`` is the one that it is stored under, ``given`` the one that people see. ``copies`` are files of the same
    bytes in the same role, by the names that people see: they are left out.
    """

    role: Role
    name: str
    given: str
    path: Path
    size: int
    sha256: str
    copies: tuple[str, ...] = ()


def take_snapshots(files: Mapping[Role, Sequence[Path]], folder: Path) -> list[Snapshot]:
    """Copy ``files`` to ``folder/<role>/<name>``; sorted by name in each role, which is the order of their rows.

    A name that the store does not allow, such as one with blanks, is changed in the store; ``given`` keeps it. For
    files with the same name in several folders, ``given`` has as much of the path as tells them apart, such as
    ``guide/index.html``. Of files with the same bytes in a role, the first is taken.

    Raises:
        BadData: a name or file that cannot be accepted, or the same bytes in two roles or as two formats.
    """
    taken: list[Snapshot] = []
    by_content: dict[str, Snapshot] = {}
    copies: dict[str, list[str]] = {}
    for role, paths in files.items():
        named = _given_names(paths)
        for given in sorted(named, key=_stored_name):
            one = _snapshot(named[given], given, folder / role, role)
            other = by_content.setdefault(one.sha256, one)
            if other is one:
                taken.append(one)
            elif other.role == role and kind_of(given) == kind_of(other.given):
                one.path.unlink()
                copies.setdefault(one.sha256, []).append(given)
            else:
                also = "" if other.role == role else f" ({other.role})"
                raise BadData(
                    f"the file holds the same bytes as {other.given}{also}",
                    where=given if other.role == role else f"{given} ({role})",
                    remedy="Give each file once: rows of the training data cannot be in the holdout.",
                )
    return [replace(one, copies=tuple(copies.get(one.sha256, ()))) for one in taken]


def _given_names(files: Sequence[Path]) -> dict[str, Path]:
    """``files`` by the names that people see: the files' own, or the ends of their paths where several are equal."""
    alike: dict[str, list[Path]] = {}
    for file in files:
        alike.setdefault(unicodedata.normalize("NFC", file.name), []).append(file)
    return {
        _checked(given): file
        for name, group in alike.items()
        for given, file in (_told_apart(name, group) if len(group) > 1 else [(name, group[0])])
    }


def _told_apart(name: str, files: Sequence[Path]) -> list[tuple[str, Path]]:
    """``files``, all called ``name``, by as many of the last parts of their paths as are needed to tell them apart."""
    paths = [unicodedata.normalize("NFC", file.absolute().as_posix()).strip("/").split("/") for file in files]
    for parts in range(2, max(map(len, paths)) + 1):
        ends = ["/".join(path[-parts:]) for path in paths]
        if len(set(ends)) == len(files):
            return list(zip(ends, files, strict=True))
    raise BadData("two of the files have this name", where=name, remedy="Rename one; the names are kept.")


def _checked(name: str) -> str:
    """``name``, if an upload may have it; it is in NFC, as some file systems decompose what was typed."""
    if not name or not name.isprintable() or name[0] in ".-" or len(name) > _MOST or len(name.encode()) > _MOST_BYTES:
        raise BadData(
            f"{name!r} cannot be the name of an upload",
            where="file name",
            remedy=f"Rename it: at most {_MOST} printable characters, and no dot or hyphen in front.",
        )
    return name


def _stored_name(given: str) -> str:
    """The name in the store: ``given`` where the store allows it; equal for equal names, different for different ones.

    ``"Fragen 1.jsonl.gz"`` gives ``"Fragen_1-5a0f3e9d.jsonl.gz"`` (with another digest).
    """
    if _FILE_NAME.match(given):
        return given
    safe = re.sub(r"[^A-Za-z0-9._+=@-]", "_", given)
    ending = "".join(PurePath(safe).suffixes[-2:])[-_MOST_ENDING:]
    stem = safe.removesuffix(ending)[: _MOST - _MOST_ENDING - 10]
    return f"{'' if safe[0].isalnum() else '_'}{stem}-{hashlib.sha256(given.encode()).hexdigest()[:8]}{ending}"


def _snapshot(file: Path, given: str, folder: Path, role: Role) -> Snapshot:
    name = _stored_name(given)
    folder.mkdir(exist_ok=True)
    hasher, size = hashlib.sha256(), 0
    with _open(file) as descriptor, _written(folder / name, given) as copy:
        before = os.fstat(descriptor)
        while chunk := os.read(descriptor, _CHUNK):
            if not size:
                # Before gigabytes are copied, as the first bytes may be refused.
                check_head(chunk[:HEAD_BYTES], kind_of(given), given)
            hasher.update(chunk)
            copy.write(chunk)
            size += len(chunk)
        after = os.fstat(descriptor)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or size != after.st_size:
        raise BadData(
            "the file changed while it was being read",
            where=given,
            remedy="Wait until it is written, then add it again.",
        )
    if not size:
        raise BadData("the file is empty (0 bytes)", where=given, remedy="Upload a file with examples in it.")
    return Snapshot(role=role, name=name, given=given, path=folder / name, size=size, sha256=hasher.hexdigest())


@contextmanager
def _written(path: Path, given: str) -> Iterator[BinaryIO]:
    """The copy, to be written. Raises UserError where there is no room for it."""
    try:
        with path.open("wb") as copy:
            yield copy
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        remedy = f"Free some, or set TMPDIR to a folder with room for {given}."
        raise UserError(f"the disk of {path.parent} is full", where=given, remedy=remedy) from error


@contextmanager
def _open(file: Path) -> Iterator[int]:
    """A descriptor of the regular file ``file``; links are not followed."""
    name = file.name
    try:
        # Without O_NONBLOCK, opening a named pipe would wait forever for a writer.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise BadData("there is no such file", where=str(file), remedy="Check the path.") from None
    except OSError as error:
        if file.is_symlink():
            what, remedy = "this is a symbolic link", "Give the path of the file itself."
        else:
            what, remedy = f"the file cannot be opened ({error.strerror})", "Check the path and its permissions."
        raise BadData(what, where=name, remedy=remedy) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadData("this is not a regular file", where=name, remedy="Give the path of a file with rows.")
        yield descriptor
    finally:
        os.close(descriptor)
