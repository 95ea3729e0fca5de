"""Malformed uploads: each builds one path in a folder. ``messages`` has the words that each is refused with."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from ft_assets.workers.datasets.intake.limits import ReadLimits
from tests.workers.datasets.intake.builders import (
    CSV_TEXT,
    GOOD,
    MIB,
    PAIR,
    ROWS,
    bad_footer,
    csv_with_huge_field,
    dangling_link,
    directory,
    flipped,
    good_parquet,
    gzip_bomb,
    gzip_named,
    link,
    parquet,
    parquet_bomb,
    parquet_wide_bomb,
    pipe,
    sparse,
    turns_with_pictures,
    unfinished,
    wide_csv,
    with_row,
    written,
    zipped,
    zstd,
)
from tests.workers.datasets.intake.pdfs import make_pdf


@dataclass(frozen=True, kw_only=True)
class Upload:
    """``build`` makes the upload in a folder and returns its path; ``grows``: it is appended to while it is read."""

    id: str
    build: Callable[[Path], Path]
    limits: ReadLimits = field(default_factory=ReadLimits)
    grows: bool = False


SMALL = ReadLimits(row_bytes=1 << 16)
LITTLE_MEMORY = ReadLimits(memory_bytes=96 * MIB)
CASES: list[Upload] = [
    # Names and places
    Upload(id="symbolic link", build=link),
    Upload(id="dangling symbolic link", build=dangling_link),
    Upload(id="directory", build=directory),
    Upload(id="named pipe", build=pipe),
    Upload(id="device", build=lambda _: Path("/dev/zero")),
    Upload(id="not there", build=lambda _: Path("/nowhere/data.jsonl")),
    Upload(id="path that climbs to what is not there", build=lambda _: Path("/nowhere/../../nowhere/data.jsonl")),
    Upload(id="name of dots", build=lambda folder: folder / ".."),
    Upload(id="name with backslashes", build=written("..\\..\\data.jsonl", GOOD)),
    Upload(id="name with a line end", build=written("data\n.jsonl", GOOD)),
    Upload(id="hidden name", build=written(".data.jsonl", GOOD)),
    Upload(id="name like an option", build=written("-rf.jsonl", GOOD)),
    Upload(id="unknown ending", build=written("data.odt", zipped("content.xml"))),
    Upload(id="no ending", build=written("data", GOOD)),
    Upload(id="unknown ending, compressed", build=written("data.tar.gz", gzip.compress(GOOD))),
    Upload(id="still being written", build=written("data.jsonl", GOOD), grows=True),
    # Wrong content for the name
    Upload(id="empty", build=written("data.jsonl", b"")),
    Upload(id="only blank lines", build=written("data.jsonl", b"\n \n\t\r\n" * 100)),
    Upload(id="only a byte order mark", build=written("data.jsonl", b"\xef\xbb\xbf\n")),
    Upload(id="zip as jsonl", build=written("data.jsonl", zipped("data.jsonl"))),
    Upload(id="zip bomb as jsonl", build=written("data.jsonl", zipped("a", "../../b", size=8 * MIB))),
    Upload(id="gzip as jsonl", build=written("data.jsonl", gzip.compress(GOOD))),
    Upload(id="zstd as csv", build=written("data.csv", lambda: zstd(GOOD))),
    Upload(id="parquet as jsonl", build=written("data.jsonl", good_parquet)),
    Upload(id="pdf as txt", build=written("book.txt", lambda: make_pdf(["text"]))),
    Upload(id="pickle as json", build=written("data.json", b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00K\x01.")),
    Upload(id="jsonl as parquet", build=written("data.parquet", GOOD)),
    Upload(id="jsonl as pdf", build=written("data.pdf", GOOD)),
    Upload(id="jsonl as gzip", build=written("data.jsonl.gz", GOOD)),
    Upload(id="zstd as gzip", build=written("data.jsonl.gz", lambda: zstd(GOOD))),
    Upload(id="gzip in gzip", build=written("data.jsonl.gz", gzip.compress(gzip.compress(GOOD)))),
    Upload(id="zip in gzip", build=written("data.jsonl.gz", gzip.compress(zipped("data.jsonl")))),
    Upload(id="login page", build=written("data.jsonl", b"<!DOCTYPE html>\n<html><body>Sign in</body></html>\n")),
    Upload(
        id="git lfs pointer", build=written("data.csv", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    ),
    Upload(id="utf-16 with mark", build=written("data.jsonl", GOOD.decode().encode("utf-16"))),
    Upload(id="utf-16 big endian with mark", build=written("data.csv", b"\xfe\xff" + CSV_TEXT.encode("utf-16-be"))),
    Upload(id="utf-16 without mark", build=written("data.jsonl", GOOD.decode().encode("utf-16-le"))),
    Upload(id="utf-32 with mark", build=written("data.json", json.dumps(ROWS).encode("utf-32"))),
    Upload(id="nul bytes everywhere", build=written("data.jsonl", b"\0" * 5000)),
    Upload(id="nul bytes at the end", build=unfinished),
    Upload(id="array as jsonl", build=written("data.jsonl", json.dumps(ROWS, indent=1).encode())),
    Upload(
        id="pretty-printed jsonl",
        build=written("data.jsonl", b"\n".join(json.dumps(r, indent=1).encode() for r in ROWS)),
    ),
    Upload(id="old mac line ends", build=written("data.jsonl", GOOD.replace(b"\n", b"\r"))),
    # Compressed
    Upload(id="truncated gzip", build=written("data.jsonl.gz", gzip.compress(GOOD)[:-200])),
    Upload(id="gzip without its checksum", build=written("data.jsonl.gz", gzip.compress(GOOD)[:-4])),
    Upload(id="gzip with a wrong checksum", build=written("data.jsonl.gz", flipped(gzip.compress(GOOD), -8))),
    Upload(id="gzip with rubbish behind", build=written("data.jsonl.gz", gzip.compress(GOOD) + b"rubbish")),
    Upload(id="gzip of nothing", build=written("data.jsonl.gz", gzip.compress(b""))),
    Upload(id="gzip of blank lines", build=written("data.jsonl.gz", gzip.compress(b"\n" * 50))),
    Upload(id="gzip bomb", build=written("data.jsonl.gz", lambda: gzip_bomb(64))),
    Upload(id="gzip bomb of many members", build=written("data.csv.gz", lambda: gzip_bomb(1, b"a") * 64)),
    Upload(id="gzip name that climbs", build=written("data.jsonl.gz", gzip_named("../../x", b"oops\n" + GOOD))),
    Upload(id="truncated zstd", build=written("data.jsonl.zst", lambda: zstd(GOOD)[:-100])),
    Upload(id="zstd bomb", build=written("data.json.zst", lambda: zstd(b"[" + b" " * 64 * MIB))),
    Upload(
        id="too large unpacked", build=written("data.jsonl.gz", gzip.compress(GOOD)), limits=ReadLimits(out_bytes=1000)
    ),
    # JSON
    Upload(id="json scalar", build=written("data.json", b'"hello"')),
    Upload(id="json cut off", build=written("data.json", json.dumps(ROWS).encode()[:-500])),
    Upload(id="json cut off in a string", build=written("data.json", b'[{"prompt": "what is')),
    Upload(id="json object cut off", build=written("data.json", b'{"rows": [{"prompt": "what is"}, ')),
    Upload(id="json array of nothing", build=written("data.json", b" [ ] ")),
    Upload(id="json object without rows", build=written("data.json", b'{"prompt": ["a"], "completion": ["b"]}')),
    Upload(id="json object of two lists", build=written("data.json", b'{"train": [{"a": 1}], "test": [{"a": 2}]}')),
    Upload(id="json element missing", build=written("data.json", b'[{"a": 1},, {"a": 2}]')),
    Upload(id="json comma at the end", build=written("data.json", b'[{"a": 1},\n]')),
    Upload(id="two json arrays", build=written("data.json", b'[{"a": 1}]\n[{"a": 2}]')),
    Upload(id="json of brackets", build=written("data.json", b"[" * 3_000_000)),
    Upload(id="json brackets that do not match", build=written("data.json", b'[{"a": [1}, {"b": 2]}]')),
    Upload(
        id="json element nested deeply",
        build=written("data.json", b"[" + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"]"),
    ),
    Upload(
        id="json element with a line end in a string",
        build=written("data.json", b'[{"prompt": "a\nb", "completion": "c"}]'),
    ),
    # Parquet
    Upload(id="truncated parquet", build=written("data.parquet", lambda: good_parquet()[:-100])),
    Upload(id="parquet with a corrupt footer", build=written("data.parquet", lambda: bad_footer(good_parquet()))),
    Upload(
        id="parquet with corrupt pages",
        build=written("data.parquet", lambda: flipped(good_parquet(write_page_checksum=True), 60)),
    ),
    Upload(id="encrypted parquet", build=written("data.parquet", lambda: b"PARE" + good_parquet()[4:-4] + b"PARE")),
    Upload(id="parquet of only marks", build=written("data.parquet", b"PAR1PAR1")),
    Upload(
        id="parquet that claims a huge footer", build=written("data.parquet", b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1")
    ),
    Upload(id="parquet bomb", build=written("data.parquet", parquet_bomb)),
    Upload(id="parquet bomb in one batch", build=written("data.parquet", parquet_wide_bomb), limits=LITTLE_MEMORY),
    Upload(
        id="parquet without rows",
        build=written("data.parquet", lambda: parquet(pa.table({"a": pa.array([], pa.string())}))),
    ),
    Upload(
        id="parquet with pictures", build=written("data.parquet", lambda: parquet(pa.table({"image": [b"\x89PNG"]})))
    ),
    Upload(
        id="parquet with bytes for texts",
        build=written("data.parquet", lambda: parquet(pa.table({"prompt": ["a"], "completion": [b"b"]}))),
    ),
    Upload(id="parquet with pictures in its turns", build=written("data.parquet", turns_with_pictures)),
    Upload(
        id="parquet of too many columns",
        build=written("data.parquet", lambda: parquet(pa.table({f"c{n}": [1] for n in range(1001)}))),
    ),
    Upload(
        id="parquet with a null",
        build=written("data.parquet", lambda: parquet(pa.table({"prompt": ["a", None], "completion": ["b", "c"]}))),
    ),
    Upload(
        id="parquet in truncated gzip", build=written("data.parquet.gz", lambda: gzip.compress(good_parquet())[:-50])
    ),
    # CSV
    Upload(id="csv of shifting columns", build=written("data.csv", (CSV_TEXT + "a,b,c\n").encode())),
    Upload(id="csv with a short record", build=written("data.csv", CSV_TEXT.replace("What is 3?,", "").encode())),
    Upload(id="csv with an open quote", build=written("data.csv", (CSV_TEXT + '"a,b\nc,d\n').encode())),
    Upload(id="csv with text after a quote", build=written("data.csv", (CSV_TEXT + '"a"b,c\n').encode())),
    Upload(
        id="csv without a header", build=written("data.csv", b'"' + b"What is it? " * 20 + b'",It is that.\n' * 100)
    ),
    Upload(id="csv with numbers as its header", build=written("data.csv", b"prompt,3\n1,2\n")),
    Upload(id="csv with a name twice", build=written("data.csv", b"prompt,completion,prompt\na,b,c\n")),
    Upload(id="csv with a nameless column", build=written("data.csv", b"prompt,,completion\na,b,c\n")),
    Upload(id="csv with only a header", build=written("data.csv", b"prompt,completion\n")),
    Upload(id="csv of bars", build=written("data.csv", CSV_TEXT.replace(",", "|").encode())),
    Upload(id="csv of tabs", build=written("data.csv", CSV_TEXT.replace(",", "\t").encode())),
    Upload(id="tsv of commas", build=written("data.tsv", CSV_TEXT.encode())),
    Upload(id="csv of too many columns", build=written("data.csv", wide_csv())),
    Upload(id="csv with a huge field", build=written("data.csv", csv_with_huge_field()), limits=SMALL),
    Upload(id="csv in latin-1", build=written("data.csv", CSV_TEXT.replace("It is 7.", "Café").encode("latin-1"))),
    Upload(id="csv with a header in latin-1", build=written("data.csv", "réponse,b\n1,2\n".encode("latin-1"))),
    Upload(id="csv with an empty answer", build=written("data.csv", b'prompt,completion\na,""\n')),
    # Text and PDF
    Upload(id="txt of blanks", build=written("book.txt", b" \n\n\t\n")),
    Upload(id="txt in latin-1", build=written("book.txt", "Ein Café.\n".encode("latin-1"))),
    Upload(id="txt that ends inside a character", build=written("book.txt", "Ein Café".encode()[:-1])),
    Upload(id="pdf without text", build=written("scan.pdf", lambda: make_pdf(["", ""]))),
    Upload(id="pdf with a password", build=written("book.pdf", lambda: make_pdf(["secret"], locked=True))),
    Upload(id="truncated pdf", build=written("book.pdf", lambda: make_pdf(["text"] * 5)[:-300])),
    Upload(id="pdf of rubbish", build=written("book.pdf", b"%PDF-1.7\n" + b"rubbish " * 50 + b"\n%%EOF\n")),
    Upload(id="pdf with a cyclic page tree", build=written("book.pdf", lambda: make_pdf(["text"], cyclic=True))),
    Upload(
        id="pdf with a bomb", build=written("book.pdf", lambda: make_pdf(["text"], bomb_mib=160)), limits=LITTLE_MEMORY
    ),
    Upload(id="pdf with no pages", build=written("book.pdf", lambda: make_pdf([]))),
    # Rows
    Upload(id="row that is cut off", build=written("data.jsonl", GOOD + b'{"prompt": "what')),
    Upload(id="row of 40 MiB", build=sparse(40)),
    Upload(id="row with a nul byte", build=written("data.jsonl", with_row(b'{"prompt": "a\0", "completion": "b"}'))),
    Upload(id="row with a byte order mark", build=written("data.jsonl", with_row("\ufeff{" + PAIR + "}"))),
    Upload(
        id="row in latin-1",
        build=written("data.jsonl", with_row('{"prompt": "caf\xe9", "completion": "b"}'.encode("latin-1"))),
    ),
    Upload(
        id="row with an overlong character",
        build=written("data.jsonl", with_row(b'{"prompt": "\xc0\xaf", "completion": "b"}')),
    ),
    Upload(
        id="row with an encoded surrogate",
        build=written("data.jsonl", with_row(b'{"prompt": "\xed\xa0\x80", "completion": "b"}')),
    ),
    Upload(
        id="row with half a surrogate pair",
        build=written("data.jsonl", with_row('{"prompt": "\\ud800", "completion": "b"}')),
    ),
    Upload(id="row with a key twice", build=written("data.jsonl", with_row("{" + PAIR + ', "prompt": "another"}'))),
    Upload(
        id="row with a key twice further in",
        build=written("data.jsonl", with_row('{"messages": [{"role": "user", "role": "system"}]}')),
    ),
    Upload(id="row with NaN", build=written("data.jsonl", with_row("{" + PAIR + ', "score": NaN}'))),
    Upload(id="row with Infinity", build=written("data.jsonl", with_row("{" + PAIR + ', "score": -Infinity}'))),
    Upload(
        id="row with an endless number",
        build=written("data.jsonl", with_row("{" + PAIR + ', "n": ' + "9" * 5000 + "}")),
    ),
    Upload(
        id="row nested deeply", build=written("data.jsonl", with_row('{"a":' + "[" * 100_000 + "]" * 100_000 + "}"))
    ),
    Upload(id="row that is a list", build=written("data.jsonl", with_row("[1, 2]"))),
    Upload(id="row that is text", build=written("data.jsonl", with_row("hello"))),
    Upload(id="row in Python's words", build=written("data.jsonl", with_row("{'prompt': None}"))),
    Upload(id="row with a comma too many", build=written("data.jsonl", with_row("{" + PAIR + ",}"))),
    Upload(id="two rows on a line", build=written("data.jsonl", with_row("{" + PAIR + "}{" + PAIR + "}"))),
    Upload(id="row with a misspelt field", build=written("data.jsonl", with_row('{"promt": "a", "completion": "b"}'))),
    Upload(id="row with an empty answer", build=written("data.jsonl", with_row('{"prompt": "a", "completion": " "}'))),
    Upload(id="row with a number for text", build=written("data.jsonl", with_row('{"prompt": 7, "completion": "b"}'))),
    Upload(
        id="row with roles in a wrong order",
        build=written(
            "data.jsonl",
            with_row(
                json.dumps({"messages": [{"role": role, "content": "x"} for role in ("user", "user", "assistant")]})
            ),
        ),
    ),
    Upload(
        id="row without an assistant's turn",
        build=written("data.jsonl", with_row('{"messages": [{"role": "user", "content": "x"}]}')),
    ),
    Upload(id="row without turns", build=written("data.jsonl", with_row('{"messages": []}'))),
]
