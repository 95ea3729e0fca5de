"""CSV and TSV (RFC 4180) with a header: each record as an object of texts. A CSV may have semicolons for commas."""

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from ft_assets.workers.datasets.intake.file_refusals import SAVE_AS_UTF8, size_text
from ft_assets.workers.datasets.intake.sink import Sink
from ft_assets.workers.datasets.intake.streams import Source
from ft_resources.errors import BadData

_HEADER_CHARACTERS = 100
_NUMBER = re.compile(r"[-+]?[0-9][0-9.,]*")
_BATCH = 1 << 20
_MARKS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}


def read(source: Source, sink: Sink, _settings: dict[str, Any]) -> None:
    """Write a line for every record after the header; blank lines are not records.

    A byte that is not UTF-8 is kept, so that the error is reported with its row.
    """
    csv.field_size_limit(source.limits.row_bytes)
    mark = _mark(source)
    with _text(source) as text:
        records = csv.reader(text, delimiter=mark, strict=True)
        rows = _records(records, source)
        header = next(rows, None)
        if header is None:
            raise BadData("the file has no rows", where=source.name, remedy="Upload a file with examples in it.")
        _check_mark(header, source, mark)
        check_header(header, source, "header")
        lines, size, number = [], 0, 0
        for number, record in enumerate(rows, start=1):
            if len(record) != len(header):
                raise BadData(
                    f"the record has {_count(len(record))}, and the header has {len(header)}",
                    where=f"{source.name}, record {number} (line {records.line_num})",
                    remedy=f"Put fields that hold {_MARKS[mark]}, quotes or line ends into double "
                    "quotes, and double the quotes inside.",
                )
            line = line_of(dict(zip(header, record, strict=True)))
            lines.append(line)
            size += len(line)
            if size >= _BATCH:
                sink.write(b"".join(lines))
                lines, size = [], 0
        sink.write(b"".join(lines))
    if not number:
        raise BadData(
            "the file has a header and no records", where=source.name, remedy="Upload a file with examples in it."
        )


def _text(source: Source) -> io.TextIOWrapper:
    return io.TextIOWrapper(source.open(), encoding="utf-8", errors="surrogateescape", newline="")


def _mark(source: Source) -> str:
    """The separator of the columns. Excel writes semicolons wherever the comma is the decimal mark."""
    if source.kind.format == "tsv":
        return "\t"
    with _text(source) as text:
        header = next(_records(csv.reader(text, strict=True), source), [])
    return ";" if len(header) == 1 and ";" in header[0] else ","


def _records(records: Any, source: Source) -> Iterator[list[str]]:
    """The records that are not blank lines, with the reader's errors in our words."""
    number = 0
    try:
        for record in records:
            if record:
                yield record
                number += 1
    except csv.Error as error:
        word = str(error)
        if "field larger" in word:
            what = f"a field is longer than {size_text(source.limits.row_bytes)}, or a quote is not closed"
        elif "unexpected end" in word:
            what = "a quote is not closed until the end of the file"
        elif "expected after" in word:
            what = "text follows a closing quote"
        else:
            what = "a carriage return is outside quotes, in the middle of a line"
        raise BadData(
            what,
            where=f"{source.name}, record {number} (line {records.line_num})" if number else f"{source.name}, header",
            remedy="Close the quote, and double quotes inside quoted fields.",
        ) from None


def check_header(header: list[str], source: Source, place: str) -> None:
    """Raise BadData unless each column of the header at ``place`` has its own name."""
    where = f"{source.name}, {place}"
    if len(header) > source.limits.columns:
        raise BadData(
            f"the header has {_count(len(header))}, more than the {source.limits.columns:,} that are allowed",
            where=where,
            remedy="Keep the columns that hold the examples.",
        )
    seen: set[str] = set()
    for at, field in enumerate(header, start=1):
        if not field.strip():
            what = f"column {at} has no name"
        elif field in seen:
            what = f"column {at} has the name of an earlier one"
        elif len(field) > _HEADER_CHARACTERS or "\n" in field or _NUMBER.fullmatch(field):
            what = f"column {at} looks like data, not like a name: the first line should name the columns"
        elif not field.isprintable():
            what = f"the name of column {at} has characters that are not printable UTF-8"
            if any("\ud800" <= character <= "\udfff" for character in field):
                raise BadData(what, where=where, remedy=SAVE_AS_UTF8)
        else:
            seen.add(field)
            continue
        raise BadData(what, where=where, remedy="Give every column a unique name in the first line.")


def _check_mark(header: list[str], source: Source, mark: str) -> None:
    other = next((each for each in _MARKS if each != mark and each in header[0]), None)
    if len(header) == 1 and other:
        endings = {"\t": "Name the file .tsv.", ",": "Name the file .csv."}
        raise BadData(
            f"the columns are separated by {_MARKS[other]}, not {_MARKS[mark]}",
            where=f"{source.name}, header",
            remedy=endings.get(other, f"Save it with {_MARKS[mark]} between the columns."),
        )


def line_of(row: dict[str, str]) -> bytes:
    """A row as a JSON line."""
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # bytes that are not UTF-8, which are written unchanged
        return (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "surrogateescape")


def _count(columns: int) -> str:
    return "1 column" if columns == 1 else f"{columns:,} columns"
