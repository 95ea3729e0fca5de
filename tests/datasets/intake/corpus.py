"""Malformed uploads: each builds one path in a folder. ``messages.py`` has the words that each is refused with."""

import csv
import gzip
import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.datasets.intake.limits import ReadLimits
from tests.datasets.intake.pdfs import make_pdf

ROWS: list[dict[str, Any]] = [{"prompt": f"What is {n}?", "completion": f"It is the number {n}."} for n in range(120)]
LINES = [json.dumps(row).encode() for row in ROWS]
GOOD = b"".join(line + b"\n" for line in LINES)
PAIR = '"prompt": "a question", "completion": "an answer"'
CSV_TEXT = "prompt,completion\n" + "".join(f"What is {n}?,It is {n}.\n" for n in range(120))
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Upload:
    """``build`` makes the upload in a folder and returns its path; ``grows``: it is appended to while it is read."""

    id: str
    build: Callable[[Path], Path]
    limits: ReadLimits = field(default_factory=ReadLimits)
    grows: bool = False


def _file(name: str, data: bytes | Callable[[], bytes]) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        (folder / name).write_bytes(data if isinstance(data, bytes) else data())
        return folder / name

    return build


def _row(line: str | bytes) -> bytes:
    """119 good rows and then, before one more, this one: row 120."""
    raw = line.encode() if isinstance(line, str) else line
    return b"".join(good + b"\n" for good in LINES[:119]) + raw + b"\n" + LINES[119] + b"\n"


def _zip(*names: str, size: int = 100) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, b"\0" * size)
    return buffer.getvalue()


def _deflated_nuls(mib: int, mark: bytes = b" ") -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*(packer.compress(mark * MIB) for _ in range(mib)), packer.flush()])


def _gzip_named(name: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(name, "wb", fileobj=buffer, mtime=0) as file:
        file.write(data)
    return buffer.getvalue()


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


def parquet(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


def good_parquet(**options: Any) -> bytes:
    return parquet(pa.Table.from_pylist(ROWS), **options)


def _parquet_bomb() -> bytes:
    """60,000 rows of one text of 64 KiB: 4 GB in a dictionary of one entry."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 60_000, pa.int32()), pa.array(["a" * 65536]))
    return parquet(pa.table({"prompt": texts, "completion": texts}), compression="zstd")


def _parquet_wide_bomb() -> bytes:
    """Its first rows are small; of the others one batch needs more memory than is allowed."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 50 + [1] * 20_000, pa.int32()), pa.array(["a", "a" * MIB]))
    return parquet(pa.table({"prompt": texts}), compression="zstd")


def _turns_with_pictures() -> bytes:
    turn = pa.struct([("role", pa.string()), ("content", pa.string()), ("image", pa.large_binary())])
    return parquet(pa.table({"messages": pa.array([[("user", "what is it?", b"\x89PNG")]], pa.list_(turn))}))


def _bad_footer(data: bytes) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length] + b"\xff" * length + data[-8:]


def _link(folder: Path) -> Path:
    (folder / "secret.jsonl").write_bytes(GOOD)
    (folder / "link.jsonl").symlink_to(folder / "secret.jsonl")
    return folder / "link.jsonl"


def _dangling(folder: Path) -> Path:
    (folder / "link.jsonl").symlink_to(folder / "nowhere.jsonl")
    return folder / "link.jsonl"


def _folder(folder: Path) -> Path:
    (folder / "folder.jsonl").mkdir()
    return folder / "folder.jsonl"


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.jsonl")
    return folder / "pipe.jsonl"


def sparse(mib: int) -> Callable[[Path], Path]:
    """1,200 good rows, then a row of ``mib`` MiB that takes no space on the disk, then another."""

    def build(folder: Path) -> Path:
        with (folder / "data.jsonl").open("wb") as file:
            file.write(GOOD * 10 + b'{"prompt": "')
            file.seek(mib * MIB, os.SEEK_CUR)
            file.write(b'"}\n' + LINES[1] + b"\n")
        return folder / "data.jsonl"

    return build


def _unfinished(folder: Path) -> Path:
    """What a download leaves that reserved its space first and was then interrupted."""
    with (folder / "data.jsonl").open("wb") as file:
        file.write(GOOD * 10)
        file.truncate(len(GOOD) * 10 + MIB)
    return folder / "data.jsonl"


def _wide_csv() -> bytes:
    return (",".join(f"c{n}" for n in range(1001)) + "\n" + ",".join("x" * 1001) + "\n").encode()


def _huge_field() -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerows([("prompt", "completion"), ("a" * 70_000, "b")])
    return buffer.getvalue().encode()


SMALL = ReadLimits(row_bytes=1 << 16)
LITTLE_MEMORY = ReadLimits(memory_bytes=96 * MIB)
CASES: list[Upload] = [
    # Names and places
    Upload(id="symbolic link", build=_link),
    Upload(id="dangling symbolic link", build=_dangling),
    Upload(id="directory", build=_folder),
    Upload(id="named pipe", build=_pipe),
    Upload(id="device", build=lambda _: Path("/dev/zero")),
    Upload(id="not there", build=lambda _: Path("/nowhere/data.jsonl")),
    Upload(id="path that climbs to what is not there", build=lambda _: Path("/nowhere/../../nowhere/data.jsonl")),
    Upload(id="name of dots", build=lambda folder: folder / ".."),
    Upload(id="name with backslashes", build=_file("..\\..\\data.jsonl", GOOD)),
    Upload(id="name with a line end", build=_file("data\n.jsonl", GOOD)),
    Upload(id="hidden name", build=_file(".data.jsonl", GOOD)),
    Upload(id="name like an option", build=_file("-rf.jsonl", GOOD)),
    Upload(id="unknown ending", build=_file("data.xlsx", _zip("xl/workbook.xml"))),
    Upload(id="no ending", build=_file("data", GOOD)),
    Upload(id="unknown ending, compressed", build=_file("data.tar.gz", gzip.compress(GOOD))),
    Upload(id="still being written", build=_file("data.jsonl", GOOD), grows=True),
    # Wrong content for the name
    Upload(id="empty", build=_file("data.jsonl", b"")),
    Upload(id="only blank lines", build=_file("data.jsonl", b"\n \n\t\r\n" * 100)),
    Upload(id="only a byte order mark", build=_file("data.jsonl", b"\xef\xbb\xbf\n")),
    Upload(id="zip as jsonl", build=_file("data.jsonl", _zip("data.jsonl"))),
    Upload(id="zip bomb as jsonl", build=_file("data.jsonl", _zip("a", "../../b", size=8 * MIB))),
    Upload(id="gzip as jsonl", build=_file("data.jsonl", gzip.compress(GOOD))),
    Upload(id="zstd as csv", build=_file("data.csv", lambda: zstd(GOOD))),
    Upload(id="parquet as jsonl", build=_file("data.jsonl", good_parquet)),
    Upload(id="pdf as txt", build=_file("book.txt", lambda: make_pdf(["text"]))),
    Upload(id="pickle as json", build=_file("data.json", b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00K\x01.")),
    Upload(id="jsonl as parquet", build=_file("data.parquet", GOOD)),
    Upload(id="jsonl as pdf", build=_file("data.pdf", GOOD)),
    Upload(id="jsonl as gzip", build=_file("data.jsonl.gz", GOOD)),
    Upload(id="zstd as gzip", build=_file("data.jsonl.gz", lambda: zstd(GOOD))),
    Upload(id="gzip in gzip", build=_file("data.jsonl.gz", gzip.compress(gzip.compress(GOOD)))),
    Upload(id="zip in gzip", build=_file("data.jsonl.gz", gzip.compress(_zip("data.jsonl")))),
    Upload(id="login page", build=_file("data.jsonl", b"<!DOCTYPE html>\n<html><body>Sign in</body></html>\n")),
    Upload(
        id="git lfs pointer", build=_file("data.csv", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    ),
    Upload(id="utf-16 with mark", build=_file("data.jsonl", GOOD.decode().encode("utf-16"))),
    Upload(id="utf-16 big endian with mark", build=_file("data.csv", b"\xfe\xff" + CSV_TEXT.encode("utf-16-be"))),
    Upload(id="utf-16 without mark", build=_file("data.jsonl", GOOD.decode().encode("utf-16-le"))),
    Upload(id="utf-32 with mark", build=_file("data.json", json.dumps(ROWS).encode("utf-32"))),
    Upload(id="nul bytes everywhere", build=_file("data.jsonl", b"\0" * 5000)),
    Upload(id="nul bytes at the end", build=_unfinished),
    Upload(id="array as jsonl", build=_file("data.jsonl", json.dumps(ROWS, indent=1).encode())),
    Upload(
        id="pretty-printed jsonl", build=_file("data.jsonl", b"\n".join(json.dumps(r, indent=1).encode() for r in ROWS))
    ),
    Upload(id="old mac line ends", build=_file("data.jsonl", GOOD.replace(b"\n", b"\r"))),
    # Compressed
    Upload(id="truncated gzip", build=_file("data.jsonl.gz", gzip.compress(GOOD)[:-200])),
    Upload(id="gzip without its checksum", build=_file("data.jsonl.gz", gzip.compress(GOOD)[:-4])),
    Upload(id="gzip with a wrong checksum", build=_file("data.jsonl.gz", _flip(gzip.compress(GOOD), -8))),
    Upload(id="gzip with rubbish behind", build=_file("data.jsonl.gz", gzip.compress(GOOD) + b"rubbish")),
    Upload(id="gzip of nothing", build=_file("data.jsonl.gz", gzip.compress(b""))),
    Upload(id="gzip of blank lines", build=_file("data.jsonl.gz", gzip.compress(b"\n" * 50))),
    Upload(id="gzip bomb", build=_file("data.jsonl.gz", lambda: _deflated_nuls(64))),
    Upload(id="gzip bomb of many members", build=_file("data.csv.gz", lambda: _deflated_nuls(1, b"a") * 64)),
    Upload(id="gzip name that climbs", build=_file("data.jsonl.gz", _gzip_named("../../x", b"oops\n" + GOOD))),
    Upload(id="truncated zstd", build=_file("data.jsonl.zst", lambda: zstd(GOOD)[:-100])),
    Upload(id="zstd bomb", build=_file("data.json.zst", lambda: zstd(b"[" + b" " * 64 * MIB))),
    Upload(
        id="too large unpacked", build=_file("data.jsonl.gz", gzip.compress(GOOD)), limits=ReadLimits(out_bytes=1000)
    ),
    # JSON
    Upload(id="json scalar", build=_file("data.json", b'"hello"')),
    Upload(id="json cut off", build=_file("data.json", json.dumps(ROWS).encode()[:-500])),
    Upload(id="json cut off in a string", build=_file("data.json", b'[{"prompt": "what is')),
    Upload(id="json object cut off", build=_file("data.json", b'{"rows": [{"prompt": "what is"}, ')),
    Upload(id="json array of nothing", build=_file("data.json", b" [ ] ")),
    Upload(id="json object without rows", build=_file("data.json", b'{"prompt": ["a"], "completion": ["b"]}')),
    Upload(id="json object of two lists", build=_file("data.json", b'{"train": [{"a": 1}], "test": [{"a": 2}]}')),
    Upload(id="json element missing", build=_file("data.json", b'[{"a": 1},, {"a": 2}]')),
    Upload(id="json comma at the end", build=_file("data.json", b'[{"a": 1},\n]')),
    Upload(id="two json arrays", build=_file("data.json", b'[{"a": 1}]\n[{"a": 2}]')),
    Upload(id="json of brackets", build=_file("data.json", b"[" * 3_000_000)),
    Upload(id="json brackets that do not match", build=_file("data.json", b'[{"a": [1}, {"b": 2]}]')),
    Upload(
        id="json element nested deeply",
        build=_file("data.json", b"[" + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"]"),
    ),
    Upload(
        id="json element with a line end in a string",
        build=_file("data.json", b'[{"prompt": "a\nb", "completion": "c"}]'),
    ),
    # Parquet
    Upload(id="truncated parquet", build=_file("data.parquet", lambda: good_parquet()[:-100])),
    Upload(id="parquet with a corrupt footer", build=_file("data.parquet", lambda: _bad_footer(good_parquet()))),
    Upload(
        id="parquet with corrupt pages",
        build=_file("data.parquet", lambda: _flip(good_parquet(write_page_checksum=True), 60)),
    ),
    Upload(id="encrypted parquet", build=_file("data.parquet", lambda: b"PARE" + good_parquet()[4:-4] + b"PARE")),
    Upload(id="parquet of only marks", build=_file("data.parquet", b"PAR1PAR1")),
    Upload(
        id="parquet that claims a huge footer", build=_file("data.parquet", b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1")
    ),
    Upload(id="parquet bomb", build=_file("data.parquet", _parquet_bomb)),
    Upload(id="parquet bomb in one batch", build=_file("data.parquet", _parquet_wide_bomb), limits=LITTLE_MEMORY),
    Upload(
        id="parquet without rows",
        build=_file("data.parquet", lambda: parquet(pa.table({"a": pa.array([], pa.string())}))),
    ),
    Upload(id="parquet with pictures", build=_file("data.parquet", lambda: parquet(pa.table({"image": [b"\x89PNG"]})))),
    Upload(
        id="parquet with bytes for texts",
        build=_file("data.parquet", lambda: parquet(pa.table({"prompt": ["a"], "completion": [b"b"]}))),
    ),
    Upload(id="parquet with pictures in its turns", build=_file("data.parquet", _turns_with_pictures)),
    Upload(
        id="parquet of too many columns",
        build=_file("data.parquet", lambda: parquet(pa.table({f"c{n}": [1] for n in range(1001)}))),
    ),
    Upload(
        id="parquet with a null",
        build=_file("data.parquet", lambda: parquet(pa.table({"prompt": ["a", None], "completion": ["b", "c"]}))),
    ),
    Upload(id="parquet in truncated gzip", build=_file("data.parquet.gz", lambda: gzip.compress(good_parquet())[:-50])),
    # CSV
    Upload(id="csv of shifting columns", build=_file("data.csv", (CSV_TEXT + "a,b,c\n").encode())),
    Upload(id="csv with a short record", build=_file("data.csv", CSV_TEXT.replace("What is 3?,", "").encode())),
    Upload(id="csv with an open quote", build=_file("data.csv", (CSV_TEXT + '"a,b\nc,d\n').encode())),
    Upload(id="csv with text after a quote", build=_file("data.csv", (CSV_TEXT + '"a"b,c\n').encode())),
    Upload(id="csv without a header", build=_file("data.csv", b'"' + b"What is it? " * 20 + b'",It is that.\n' * 100)),
    Upload(id="csv with numbers as its header", build=_file("data.csv", b"prompt,3\n1,2\n")),
    Upload(id="csv with a name twice", build=_file("data.csv", b"prompt,completion,prompt\na,b,c\n")),
    Upload(id="csv with a nameless column", build=_file("data.csv", b"prompt,,completion\na,b,c\n")),
    Upload(id="csv with only a header", build=_file("data.csv", b"prompt,completion\n")),
    Upload(id="csv of semicolons", build=_file("data.csv", CSV_TEXT.replace(",", ";").encode())),
    Upload(id="csv of tabs", build=_file("data.csv", CSV_TEXT.replace(",", "\t").encode())),
    Upload(id="tsv of commas", build=_file("data.tsv", CSV_TEXT.encode())),
    Upload(id="csv of too many columns", build=_file("data.csv", _wide_csv())),
    Upload(id="csv with a huge field", build=_file("data.csv", _huge_field()), limits=SMALL),
    Upload(id="csv in latin-1", build=_file("data.csv", CSV_TEXT.replace("It is 7.", "Café").encode("latin-1"))),
    Upload(id="csv with a header in latin-1", build=_file("data.csv", "réponse,b\n1,2\n".encode("latin-1"))),
    Upload(id="csv with an empty answer", build=_file("data.csv", b'prompt,completion\na,""\n')),
    # Text and PDF
    Upload(id="txt of blanks", build=_file("book.txt", b" \n\n\t\n")),
    Upload(id="txt in latin-1", build=_file("book.txt", "Ein Café.\n".encode("latin-1"))),
    Upload(id="txt that ends inside a character", build=_file("book.txt", "Ein Café".encode()[:-1])),
    Upload(id="pdf without text", build=_file("scan.pdf", lambda: make_pdf(["", ""]))),
    Upload(id="pdf with a password", build=_file("book.pdf", lambda: make_pdf(["secret"], locked=True))),
    Upload(id="truncated pdf", build=_file("book.pdf", lambda: make_pdf(["text"] * 5)[:-300])),
    Upload(id="pdf of rubbish", build=_file("book.pdf", b"%PDF-1.7\n" + b"rubbish " * 50 + b"\n%%EOF\n")),
    Upload(id="pdf with a cyclic page tree", build=_file("book.pdf", lambda: make_pdf(["text"], cyclic=True))),
    Upload(
        id="pdf with a bomb", build=_file("book.pdf", lambda: make_pdf(["text"], bomb_mib=160)), limits=LITTLE_MEMORY
    ),
    Upload(id="pdf with no pages", build=_file("book.pdf", lambda: make_pdf([]))),
    # Rows
    Upload(id="row that is cut off", build=_file("data.jsonl", GOOD + b'{"prompt": "what')),
    Upload(id="row of 40 MiB", build=sparse(40)),
    Upload(id="row with a nul byte", build=_file("data.jsonl", _row(b'{"prompt": "a\0", "completion": "b"}'))),
    Upload(id="row with a byte order mark", build=_file("data.jsonl", _row("\ufeff{" + PAIR + "}"))),
    Upload(
        id="row in latin-1",
        build=_file("data.jsonl", _row('{"prompt": "caf\xe9", "completion": "b"}'.encode("latin-1"))),
    ),
    Upload(
        id="row with an overlong character",
        build=_file("data.jsonl", _row(b'{"prompt": "\xc0\xaf", "completion": "b"}')),
    ),
    Upload(
        id="row with an encoded surrogate",
        build=_file("data.jsonl", _row(b'{"prompt": "\xed\xa0\x80", "completion": "b"}')),
    ),
    Upload(
        id="row with half a surrogate pair", build=_file("data.jsonl", _row('{"prompt": "\\ud800", "completion": "b"}'))
    ),
    Upload(id="row with a key twice", build=_file("data.jsonl", _row("{" + PAIR + ', "prompt": "another"}'))),
    Upload(
        id="row with a key twice further in",
        build=_file("data.jsonl", _row('{"messages": [{"role": "user", "role": "system"}]}')),
    ),
    Upload(id="row with NaN", build=_file("data.jsonl", _row("{" + PAIR + ', "score": NaN}'))),
    Upload(id="row with Infinity", build=_file("data.jsonl", _row("{" + PAIR + ', "score": -Infinity}'))),
    Upload(id="row with an endless number", build=_file("data.jsonl", _row("{" + PAIR + ', "n": ' + "9" * 5000 + "}"))),
    Upload(id="row nested deeply", build=_file("data.jsonl", _row('{"a":' + "[" * 100_000 + "]" * 100_000 + "}"))),
    Upload(id="row that is a list", build=_file("data.jsonl", _row("[1, 2]"))),
    Upload(id="row that is text", build=_file("data.jsonl", _row("hello"))),
    Upload(id="row in Python's words", build=_file("data.jsonl", _row("{'prompt': None}"))),
    Upload(id="row with a comma too many", build=_file("data.jsonl", _row("{" + PAIR + ",}"))),
    Upload(id="two rows on a line", build=_file("data.jsonl", _row("{" + PAIR + "}{" + PAIR + "}"))),
    Upload(id="row with a misspelt field", build=_file("data.jsonl", _row('{"promt": "a", "completion": "b"}'))),
    Upload(id="row with an empty answer", build=_file("data.jsonl", _row('{"prompt": "a", "completion": " "}'))),
    Upload(id="row with a number for text", build=_file("data.jsonl", _row('{"prompt": 7, "completion": "b"}'))),
    Upload(
        id="row with roles in a wrong order",
        build=_file(
            "data.jsonl",
            _row(json.dumps({"messages": [{"role": role, "content": "x"} for role in ("user", "user", "assistant")]})),
        ),
    ),
    Upload(
        id="row without an assistant's turn",
        build=_file("data.jsonl", _row('{"messages": [{"role": "user", "content": "x"}]}')),
    ),
    Upload(id="row without turns", build=_file("data.jsonl", _row('{"messages": []}'))),
]
