"""An uploaded file as JSON lines: the file itself if it is JSONL, else the output of a reader process with limits."""

import hashlib
import mmap
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ft_assets.settings.dataset.policy import TextSettings
from ft_assets.workers.datasets.intake.kinds import BOM, HEAD_BYTES, check_head, kind_of
from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_assets.workers.datasets.intake.sandbox import Job, run_reader
from ft_resources.errors import BadData

Role = Literal["upload", "validation", "holdout"]
_BLOCK = 1 << 20
_TAIL = 4096
_OLD_MAC = re.compile(rb"\}[ \t]*\r[ \t]*\{")


@dataclass(frozen=True, kw_only=True, slots=True)
class Spool:
    """A file of JSON lines (one object a line, UTF-8, ``\\n``): rows start at byte ``start`` of ``path``.

    ``name`` and ``role`` are the upload's; ``source_sha256`` and ``source_size`` (bytes) are of the file as uploaded.
    Row numbers count lines of JSONL, elements of a JSON array, records after a CSV's header, rows of Parquet, pieces of
    plain text and documents (rows ``{"text", "source", "page"}``; ``source`` names file and section, ``page`` is 0
    except for PDF). ``pictures`` of a document are not read. ``cut`` says that there are more rows (``head_bytes``).
    """

    name: str
    role: Role
    path: Path
    start: int
    source_sha256: str
    source_size: int
    pictures: int = 0
    cut: bool = False


def spool(
    path: Path,
    name: str,
    folder: Path,
    *,
    role: Role,
    text: TextSettings,
    limits: ReadLimits | None = None,
    sha256: str | None = None,
) -> Spool:
    """The rows of the file at ``path``, which must not change any more, as JSON lines.

    Args:
        path: the file. Plain JSONL is used in place and must outlive the spool.
        name: the name it was uploaded under; its ending names the format, which the content must confirm.
        folder: where other formats are written to. After an error nothing of this file is left in it.
        role: what the rows are for.
        text: how plain text is cut into pieces.
        limits: the limits for reading.
        sha256: the file's sha256 if known; else it is computed here.

    Raises:
        BadData: the file as a whole cannot be used: what, where and remedy. Rows are not checked.
    """
    limits = limits or ReadLimits()
    kind = kind_of(name)
    size = path.stat().st_size
    if not size:
        raise BadData("the file is empty (0 bytes)", where=name, remedy="Upload a file with examples in it.")
    head = _read(path, 0, HEAD_BYTES)
    check_head(head, kind, name)
    target, start, pictures, cut = path, 0, 0, False
    if kind.format == "jsonl" and not kind.codec:
        check_lines(path, name)
        start = len(BOM) if head.startswith(BOM) else 0
    else:
        folder.mkdir(parents=True, exist_ok=True)
        # The name may have folders in it.
        target = folder / f"{role}-{path.name}.jsonl"
        job = Job(
            path=path,
            name=name,
            kind=kind,
            target=target,
            chunk_characters=text.chunk_characters,
            pdf_tables=text.pdf == "tables",
        )
        # JSON lines in a file named JSON are so common that they are accepted.
        found = run_reader(job, limits)
        pictures, cut = found.pictures, found.cut
        if cut:
            _end_with_row(target)
        if found.is_lines and not target.exists():
            target, start = path, len(BOM) if head.startswith(BOM) else 0
        if target != path:
            try:
                check_lines(target, name)
            except BadData:
                target.unlink()
                raise
    return Spool(
        name=name,
        role=role,
        path=target,
        start=start,
        source_sha256=sha256 or _sha256(path),
        source_size=size,
        pictures=pictures,
        cut=cut,
    )


def _end_with_row(path: Path) -> None:
    """Take away what follows the last line feed."""
    with path.open("rb+") as file, mmap.mmap(file.fileno(), 0) as data:
        end = data.rfind(b"\n") + 1
    os.truncate(path, end)


def check_lines(path: Path, name: str) -> None:
    """Refuse a JSON lines file that is something else as a whole: blank, partly transferred, or in another layout."""
    first = _first_word(path)
    if not first:
        raise BadData("the file has no rows", where=name, remedy="Upload a file with examples in it.")
    tail = _read(path, max(path.stat().st_size - _TAIL, 0), _TAIL)
    if not tail.rstrip(b"\0"):
        raise BadData(
            "the file ends in NUL bytes, as after a transfer that was not completed",
            where=name,
            remedy="Transfer the file again and compare its size or checksum with the original's.",
        )
    head = _read(path, 0, HEAD_BYTES).removeprefix(BOM).lstrip()
    if first == b"[":
        raise BadData(
            "this is one JSON array, not one object a line",
            where=name,
            remedy="Name the file .json instead, or write one object per line.",
        )
    if first == b"{" and head[1:].lstrip(b" \t\r")[:1] == b"\n":
        raise BadData(
            "the first object spans more than one line",
            where=name,
            remedy="Write each object on one line; or, if it is one JSON document, name the file .json.",
        )
    if b"\n" not in head and _OLD_MAC.search(head):
        raise BadData(
            "lines end in a carriage return alone",
            where=name,
            remedy="Save the file with line ends \\n (Unix) or \\r\\n (Windows).",
        )


def _first_word(path: Path) -> bytes:
    """The first byte of ``path`` that is neither white space nor part of a byte order mark; b"" if there is none."""
    with path.open("rb", buffering=0) as file:
        block = file.read(_BLOCK).removeprefix(BOM)
        while block:
            if word := block.lstrip():
                return word[:1]
            block = file.read(_BLOCK)
    return b""


def _read(path: Path, start: int, count: int) -> bytes:
    with path.open("rb", buffering=0) as file:
        return os.pread(file.fileno(), count, start)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
