"""From a file to numbered rows, one at a time: what is wrong with a row is a row of the result, not the end of it."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from ft_assets.datasets.rows import BadRow, RawRow, Reason, RowProblem
from ft_resources.errors import BadData

MAX_ROW_BYTES = 16 << 20
_UTF8_BOM = b"\xef\xbb\xbf"
_OTHER_BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def read_jsonl(path: Path, name: str) -> Iterator[RawRow | BadRow]:
    """The rows of a JSON lines file in order; ``row`` is the line's number, so blank lines count but give no row.

    Memory is bounded by one row (16 MiB at most). A leading UTF-8 byte order mark is skipped. ``name`` is the
    file's name in errors. Raises BadData for a file that is not UTF-8 as a whole (UTF-16).
    """
    with path.open("rb") as file:
        _skip_bom(file, name)
        number = 0
        while line := file.readline(MAX_ROW_BYTES + 1):
            number += 1
            try:
                if len(line) > MAX_ROW_BYTES:
                    _skip_line(file, line)
                    raise RowProblem(Reason.TOO_LONG, "", f"the row is longer than {MAX_ROW_BYTES >> 20} MiB")
                if line.strip():
                    yield RawRow(row=number, value=_parse(_decode(line), ended=line.endswith(b"\n")))
            except RowProblem as bad:
                yield BadRow(row=number, field=bad.field, reason=bad.reason, problem=bad.problem)


READERS: Mapping[str, Callable[[Path, str], Iterator[RawRow | BadRow]]] = MappingProxyType(
    {".jsonl": read_jsonl, ".ndjson": read_jsonl}
)
"""File name endings that can be read."""


def read_rows(path: Path, name: str) -> Iterator[RawRow | BadRow]:
    """The rows of ``path``, by the ending of ``name``. Raises BadData for an ending that cannot be read."""
    reader = READERS.get(Path(name).suffix.lower())
    if reader is None:
        raise BadData(
            f"files ending in {Path(name).suffix!r} cannot be read",
            where=name,
            remedy=f"Save it as JSON lines (one JSON object a line), named {' or '.join(READERS)}.",
        )
    return reader(path, name)


def _skip_bom(file: BinaryIO, name: str) -> None:
    start = file.read(3)
    for mark, encoding in _OTHER_BOMS.items():
        if start.startswith(mark):
            raise BadData(
                f"the file is {encoding} text, not UTF-8 (byte 1)", where=name, remedy="Save the file as UTF-8."
            )
    if start != _UTF8_BOM:
        file.seek(0)


def _skip_line(file: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = file.readline(MAX_ROW_BYTES)


def _decode(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RowProblem(
            Reason.NOT_UTF8, "", f"byte {error.start + 1} of the row (0x{line[error.start]:02x}) is not UTF-8"
        ) from None


def _parse(text: str, *, ended: bool) -> dict[str, Any]:
    """The one JSON object in ``text``; ``ended`` is whether a line end followed (it does not in a file cut off)."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        cut = "" if ended else "; the file ends here without a line end, so it may have been cut off"
        raise RowProblem(
            Reason.NOT_JSON, "", f"the row is not valid JSON at character {error.pos + 1} ({error.msg}){cut}"
        ) from None
    except RecursionError:
        raise RowProblem(Reason.NOT_JSON, "", "the row's JSON is nested too deeply") from None
    except ValueError:  # what Python's int() says of thousands of digits
        raise RowProblem(Reason.NOT_JSON, "", "the row has a number with too many digits") from None
    if not isinstance(value, dict):
        raise RowProblem(Reason.NOT_JSON, "", "the row is JSON but not an object ({…})")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise RowProblem(Reason.NOT_JSON, "", "an object of the row has the same key twice")
    return value


def _refuse_constant(word: str) -> None:
    raise RowProblem(Reason.NOT_JSON, "", f"the row has {word}, which is not JSON")
