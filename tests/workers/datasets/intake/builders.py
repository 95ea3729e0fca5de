"""What malformed uploads are made with."""

import csv
import gzip
import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS: list[dict[str, Any]] = [{"prompt": f"What is {n}?", "completion": f"It is the number {n}."} for n in range(120)]
LINES = [json.dumps(row).encode() for row in ROWS]
GOOD = b"".join(line + b"\n" for line in LINES)
PAIR = '"prompt": "a question", "completion": "an answer"'
CSV_TEXT = "prompt,completion\n" + "".join(f"What is {n}?,It is {n}.\n" for n in range(120))
MIB = 1 << 20


def written(name: str, data: bytes | Callable[[], bytes]) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        (folder / name).write_bytes(data if isinstance(data, bytes) else data())
        return folder / name

    return build


def with_row(line: str | bytes) -> bytes:
    """119 good rows and then, before one more, this one: row 120."""
    raw = line.encode() if isinstance(line, str) else line
    return b"".join(good + b"\n" for good in LINES[:119]) + raw + b"\n" + LINES[119] + b"\n"


def zipped(*names: str, size: int = 100) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, b"\0" * size)
    return buffer.getvalue()


def gzip_bomb(mib: int, mark: bytes = b" ") -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*(packer.compress(mark * MIB) for _ in range(mib)), packer.flush()])


def gzip_named(name: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(name, "wb", fileobj=buffer, mtime=0) as file:
        file.write(data)
    return buffer.getvalue()


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


def parquet(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


def good_parquet(**options: Any) -> bytes:
    return parquet(pa.Table.from_pylist(ROWS), **options)


def parquet_bomb() -> bytes:
    """60,000 rows of one text of 64 KiB: 4 GB in a dictionary of one entry."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 60_000, pa.int32()), pa.array(["a" * 65536]))
    return parquet(pa.table({"prompt": texts, "completion": texts}), compression="zstd")


def parquet_wide_bomb() -> bytes:
    """Its first rows are small; of the others one batch needs more memory than is allowed."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 50 + [1] * 20_000, pa.int32()), pa.array(["a", "a" * MIB]))
    return parquet(pa.table({"prompt": texts}), compression="zstd")


def turns_with_pictures() -> bytes:
    turn = pa.struct([("role", pa.string()), ("content", pa.string()), ("image", pa.large_binary())])
    return parquet(pa.table({"messages": pa.array([[("user", "what is it?", b"\x89PNG")]], pa.list_(turn))}))


def bad_footer(data: bytes) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length] + b"\xff" * length + data[-8:]


def link(folder: Path) -> Path:
    (folder / "secret.jsonl").write_bytes(GOOD)
    (folder / "link.jsonl").symlink_to(folder / "secret.jsonl")
    return folder / "link.jsonl"


def dangling_link(folder: Path) -> Path:
    (folder / "link.jsonl").symlink_to(folder / "nowhere.jsonl")
    return folder / "link.jsonl"


def directory(folder: Path) -> Path:
    (folder / "folder.jsonl").mkdir()
    return folder / "folder.jsonl"


def pipe(folder: Path) -> Path:
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


def unfinished(folder: Path) -> Path:
    """What a download leaves that reserved its space first and was then interrupted."""
    with (folder / "data.jsonl").open("wb") as file:
        file.write(GOOD * 10)
        file.truncate(len(GOOD) * 10 + MIB)
    return folder / "data.jsonl"


def wide_csv() -> bytes:
    return (",".join(f"c{n}" for n in range(1001)) + "\n" + ",".join("x" * 1001) + "\n").encode()


def csv_with_huge_field() -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerows([("prompt", "completion"), ("a" * 70_000, "b")])
    return buffer.getvalue().encode()
