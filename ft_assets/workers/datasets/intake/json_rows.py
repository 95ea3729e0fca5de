"""A JSON array of objects, or an object that holds one such array, as lines: bytes are moved, never parsed.

So errors inside an element (duplicate keys, NaN, mismatched brackets) are kept for the row's own check, and memory does
not grow with the length of an element.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ft_assets.workers.datasets.intake.file_refusals import damaged
from ft_assets.workers.datasets.intake.json_scan import JsonScanner
from ft_assets.workers.datasets.intake.sink import Sink
from ft_assets.workers.datasets.intake.streams import Source
from ft_resources.errors import BadData

_BLANK_LINE = re.compile(rb"\n[ \t]*\n")
_COMMA, _OPEN = ord(","), ord("[")
# Not allowed in a JSON string, as a line end is not: the row's own check finds it.
_LINE_END_IN_STRING = 1


def read(source: Source, sink: Sink, _settings: dict[str, Any]) -> str | None:
    """Write a line for each element; "jsonl" if the file is JSON lines (which are written only if unpacked)."""
    with source.open() as file:
        first = _skip_space(file)
    if first == b"[":
        start = 0
    elif first == b"{":
        found = _find_array(source)
        if found is None:
            if source.kind.codec:
                for block in source.blocks():
                    sink.write(block)
            return "jsonl"
        start = found
    elif not first:
        raise BadData("the file has no rows", where=source.name, remedy="Upload a file with examples in it.")
    else:
        raise BadData(
            "this is not JSON: it starts with neither [ nor {",
            where=source.name,
            remedy="Write a JSON array of objects, or let its name end in its format.",
        )
    _write_elements(source, sink, start, alone=first == b"[")
    return None


def _skip_space(file: Any) -> bytes:
    while (byte := file.read(1)) and byte.isspace():
        pass
    return bytes(byte)


def _find_array(source: Source) -> int | None:
    """Where the only array of objects starts in the file's object; None if objects follow on separate lines."""
    scanner, at, arrays, previous = JsonScanner(), 0, [], 0
    with source.open() as file:
        while data := file.read(1 << 20):
            block = np.frombuffer(data, np.uint8)
            marks, depths, quotes = scanner.scan(block)
            kinds = block[marks]
            arrays += [at + int(mark) for mark in marks[(depths == 2) & (kinds == _OPEN)]]
            ends = marks[(depths == 0) & (kinds != _COMMA)]
            scanner.advance(depths, quotes)
            if len(ends):
                rest = (data[int(ends[0]) + 1 :] + file.read(1 << 16)).lstrip(b" \t\r")
                return _after_object(rest, arrays, at + int(ends[0]), source)
            at += len(data)
            previous = at
    raise _cut_off(source, f"after {previous:,} bytes, inside the object")


def _after_object(rest: bytes, arrays: list[int], end: int, source: Source) -> int | None:
    if rest.lstrip()[:1] == b"{" and rest[:1] == b"\n":
        return None
    if rest.strip():
        raise _text_after(source)
    arrays = [start for start in arrays if start < end and _holds_objects(source, start)]
    if len(arrays) == 1:
        return arrays[0]
    what = (
        "holds no list of objects" if not arrays else f"holds {len(arrays)} lists of objects, so it is not clear which"
    )
    raise BadData(
        f"the JSON is one object that {what}{' the rows are' if arrays else ''}",
        where=source.name,
        remedy='Write the rows as one array: [{"prompt": …, "completion": …}, …].',
    )


def _holds_objects(source: Source, start: int) -> bool:
    with source.open() as file:
        _skip(file, start + 1)
        return _skip_space(file) == b"{"


def _write_elements(source: Source, sink: Sink, start: int, *, alone: bool) -> None:
    """Write the elements of the array whose bracket is the first structural byte at or after ``start``."""
    scanner, line, number, ended = JsonScanner(), _LineCheck(source), 0, False
    for data in _from(source, start):
        if ended:
            if alone and data.strip():
                raise _text_after(source)
            continue
        block = np.frombuffer(data, np.uint8)
        marks, depths, quotes = scanner.scan(block)
        begin = int(marks[0]) + 1 if scanner.depth == 0 and len(marks) else 0
        closing = marks[depths == 0]
        end = int(closing[0]) if len(closing) else len(data)
        lines = block.copy()
        breaks = np.flatnonzero((block == 10) | (block == 13))
        lines[breaks] = np.where(scanner.inside(breaks, quotes), _LINE_END_IN_STRING, ord(" "))
        commas = marks[(depths == 1) & (block[marks] == _COMMA)]
        lines[commas] = ord("\n")
        part = lines[begin:end].tobytes()
        line.check(part)
        sink.write(part)
        number += len(commas)
        scanner.advance(depths, quotes)
        if len(closing):
            ended = True
            if alone and data[end + 1 :].strip():
                raise _text_after(source)
            if not alone:
                break
    if not ended:
        raise _cut_off(source, f"inside element {number + 1:,} of the array")
    line.end()
    sink.write(b"\n")


class _LineCheck:
    """Finds missing elements, as in ``[1,,2]``; their blank lines would otherwise be skipped like an upload's."""

    def __init__(self, source: Source) -> None:
        self._source, self._tail, self._lines = source, b"\n", 0

    def check(self, part: bytes) -> None:
        text = self._tail + part
        found = _BLANK_LINE.search(text)
        if found:
            raise self._missing(self._lines + text.count(b"\n", 1, found.end()))
        self._lines += part.count(b"\n")
        last = text.rfind(b"\n")
        blank = last >= 0 and not text[last:].strip()
        self._tail = b"\n" if blank else b"x"

    def end(self) -> None:
        if self._tail == b"\n":
            if not self._lines:
                raise BadData(
                    "the JSON array is empty", where=self._source.name, remedy="Upload a file with examples in it."
                )
            raise self._missing(self._lines + 1)

    def _missing(self, number: int) -> BadData:
        return BadData(
            "there is nothing between two commas, or after the last one",
            where=f"{self._source.name}, row {number}",
            remedy="Remove the extra comma: with it, the array is not valid JSON.",
        )


def _from(source: Source, start: int) -> Iterator[bytes]:
    with source.open() as file:
        _skip(file, start)
        yield from iter(lambda: file.read(1 << 20), b"")


def _skip(file: Any, count: int) -> None:
    while count:
        block = file.read(min(count, 1 << 20))
        if not block:
            return
        count -= len(block)


def _text_after(source: Source) -> BadData:
    return BadData(
        "there is more text after the end of the JSON",
        where=source.name,
        remedy="Keep one JSON array in a file; or write one object a line, and name the file .jsonl.",
    )


def _cut_off(source: Source, where: str) -> BadData:
    return damaged(source.name, "JSON", f"it ends {where}, so a part is missing")
