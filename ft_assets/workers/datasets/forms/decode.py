"""From one line of bytes to one row, or the exact reason why not."""

import json
import math
import re
from typing import Any

from ft_assets.workers.datasets.forms.reasons import Reason, RowProblem

MAX_ROW_BYTES = 16 << 20
MAX_DEPTH = 100
_STRUCTURE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|([\[{])|([\]}])')


def decode_line(line: bytes, *, ended: bool) -> dict[str, Any]:
    """The row in ``line``, as ``decode_object``; a string alone is a text: ``{"text": …}``."""
    value = _decode(line, ended=ended)
    return {"text": value} if isinstance(value, str) else _object(value)


def decode_object(line: bytes) -> dict[str, Any]:
    """The one JSON object in ``line``.

    Stricter than ``json.loads``: no repeated keys, NaN, Infinity or numbers too large for a float, at most 100 levels.
    """
    return _object(_decode(line, ended=True))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RowProblem(Reason.NOT_JSON, "", "the row is JSON but not an object ({…})")
    return value


def _decode(line: bytes, *, ended: bool) -> Any:
    """The JSON value in ``line``; ``ended``: whether a line end followed (not in a truncated file)."""
    if len(line) > MAX_ROW_BYTES:
        raise RowProblem(Reason.TOO_LONG, "", f"the row is longer than {MAX_ROW_BYTES >> 20} MiB")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte {error.start + 1} of the row (0x{line[error.start]:02x})"
        raise RowProblem(Reason.NOT_UTF8, "", f"{place} is not UTF-8") from None
    # The parser's own limit depends on the current stack depth, which must not decide about rows.
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _depth(line) > MAX_DEPTH:
        raise RowProblem(Reason.NOT_JSON, "", "the row's JSON is nested too deeply")
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        cut = "" if ended else "; the file ends here without a line end, so it may have been cut off"
        problem = f"the row is not valid JSON at character {error.pos + 1} ({error.msg}){cut}"
        raise RowProblem(Reason.NOT_JSON, "", problem) from None
    except ValueError:  # Python's int() raises this for thousands of digits
        raise RowProblem(Reason.NOT_JSON, "", "the row has a number with too many digits") from None


def _depth(line: bytes) -> int:
    depth = deepest = 0
    for match in _STRUCTURE.finditer(line):
        if match[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif match[2]:
            depth -= 1
    return deepest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise RowProblem(Reason.NOT_JSON, "", "an object of the row has the same key twice")
    return value


def _refuse_constant(word: str) -> None:
    raise RowProblem(Reason.NOT_JSON, "", f"the row has {word}, which is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise RowProblem(Reason.NOT_JSON, "", "the row has a number that is too large")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite)
