"""A file's claimed format (by its name) and its actual format (by its first bytes); both must agree."""

import re
from dataclasses import dataclass
from typing import Literal

from ft_assets.settings.readable import READABLE
from ft_resources.errors import BadData

Format = Literal["jsonl", "json", "parquet", "csv", "tsv", "txt", "pdf", "docx", "html", "xlsx"]
Codec = Literal["", "gzip", "zstd"]

HEAD_BYTES = 1 << 16
BOM = b"\xef\xbb\xbf"
_ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "txt",
    ".md": "txt",
    ".markdown": "txt",
    ".pdf": "pdf",
    ".docx": "docx",
    ".html": "html",
    ".htm": "html",
    ".xlsx": "xlsx",
}
CODECS: dict[str, Codec] = {".gz": "gzip", ".zst": "zstd"}
# Of two marks with a common start, the longer comes first.
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "ZIP"),
    (b"PK\x05\x06", "ZIP"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!", "RAR"),
    (b"PAR1", "Parquet"),
    (b"PARE", "encrypted Parquet"),
    (b"%PDF-", "PDF"),
    (b"ARROW1", "Arrow"),
    (b"\xff\xff\xff\xff", "Arrow stream"),
    (b"Obj\x01", "Avro"),
    (b"ORC", "ORC"),
    (b"SQLite format 3\x00", "SQLite"),
    (b"\xd0\xcf\x11\xe0", "old Microsoft Office"),
    (b"\x93NUMPY", "NumPy"),
    (b"\x80\x02", "Python pickle"),
    (b"\x80\x03", "Python pickle"),
    (b"\x80\x04", "Python pickle"),
    (b"\x80\x05", "Python pickle"),
    (b"\x7fELF", "program"),
)
_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_BINARY: dict[Format, str] = {"parquet": "Parquet", "pdf": "PDF", "docx": "ZIP", "xlsx": "ZIP"}
_WORDS: dict[Format, str] = {
    "jsonl": "JSON lines",
    "json": "JSON",
    "csv": "CSV",
    "tsv": "TSV",
    "txt": "plain text",
    "parquet": "Parquet",
    "pdf": "PDF",
    "docx": "Word",
    "html": "HTML",
    "xlsx": "Excel",
}
CUT: frozenset[Format] = frozenset(("txt", "pdf", "docx", "html"))
"""Formats without rows, which are cut into pieces."""
_HTML = re.compile(rb"\s*(?:<!doctype\s+html|<html[\s>])", re.IGNORECASE)
_LFS = b"version https://git-lfs.github.com/spec/"
# A PDF may have up to 1 KiB of other bytes in front (ISO 32000-1, annex H.3).
_PDF_WITHIN = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A format and its compression ("" if it is not compressed)."""

    format: Format
    codec: Codec


def kind_of(name: str) -> Kind:
    """The kind of a file with this name. Raises BadData for unknown endings."""
    stem, ending = _cut(name)
    codec = CODECS.get(ending, "")
    if codec:
        _, ending = _cut(stem)
    found = _ENDINGS.get(ending)
    if found is None:
        shown = ending + (name[len(stem) :].lower() if codec else "")
        raise BadData(
            f"files ending in {shown!r} cannot be read" if ending else "the file's name does not end in a format",
            where=name,
            remedy=f"Save it as {READABLE}, with that ending.",
        )
    return Kind(format=found, codec=codec)


def is_markdown(name: str) -> bool:
    """Whether a text of this name is Markdown."""
    stem, ending = _cut(name)
    return (_cut(stem)[1] if ending in CODECS else ending) in (".md", ".markdown")


def check_head(head: bytes, kind: Kind, name: str) -> None:
    """Refuse a file whose first bytes (``HEAD_BYTES`` of them, or all) do not match its name.

    Raises:
        BadData: another format, text that is not UTF-8 as a whole, or a page or pointer saved in place of the data.
    """
    found = next((word for mark, word in _MAGIC if head.startswith(mark)), "")
    if found == "" and b"%PDF-" in head[:_PDF_WITHIN]:
        found = "PDF" if kind.format == "pdf" else ""
    wanted = kind.codec or _BINARY.get(kind.format, "")
    word = kind.codec or _WORDS[kind.format]
    if found == "encrypted Parquet" and wanted == "Parquet":
        raise BadData(
            "the Parquet file is encrypted", where=name, remedy="Save it without encryption; uploads are kept private."
        )
    if found != wanted:
        if not found:
            _check_text(head, name)
            raise BadData(
                f"this is not a {word} file, though its name ends in {_cut(name)[1]!r}",
                where=name,
                remedy="Check that it is complete, and that its name ends in its format.",
            )
        article = "an" if found[0] in "aeoxAEO" else "a"
        raise BadData(f"this is {article} {found} file, not {word}", where=name, remedy=_remedy_for(found))
    if not wanted:
        _check_text(head, name, page=kind.format == "html")


def _check_text(head: bytes, name: str, *, page: bool = False) -> None:
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            raise BadData(
                f"the file is {encoding} text, not UTF-8 (byte 1)", where=name, remedy="Save the file as UTF-8."
            )
    nuls = head.count(0)
    if nuls * 10 > len(head):
        raise BadData(
            f"the file is not text: {nuls:,} of its first {len(head):,} bytes are NUL",
            where=name,
            remedy="Save it as UTF-8 text; if it is text, it may be UTF-16, or its transfer may have failed.",
        )
    if not page and _HTML.match(head):
        raise BadData(
            "this is an HTML page, perhaps a login or error page saved in place of the data",
            where=name,
            remedy="Download the data again, signed in, and look at it before you add it; a page to train on is named "
            ".html.",
        )
    if head.startswith(_LFS):
        raise BadData(
            "this is a Git LFS pointer, not the file it points to",
            where=name,
            remedy="Fetch the data itself with `git lfs pull`, then add it again.",
        )


def _remedy_for(found: str) -> str:
    if found == "ZIP":
        return "Unpack it and add its files; Word and Excel files are named .docx and .xlsx."
    if found in ("gzip", "zstd"):
        ending = ".gz" if found == "gzip" else ".zst"
        return f"Let its name end in its format and {ending}, such as data.jsonl{ending}."
    if found in ("Parquet", "PDF"):
        return f"Rename it so that it ends in .{found.lower()}."
    if found == "encrypted Parquet":
        return "Save it without encryption; uploads are kept private."
    return f"Save the data as {READABLE}."


def _cut(name: str) -> tuple[str, str]:
    """``name`` without its last ending, and that ending in lower case ("" if there is none)."""
    stem, dot, ending = name.rpartition(".")
    return (stem, f".{ending.lower()}") if dot and stem else (name, "")
