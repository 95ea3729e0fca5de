"""The beginning of a file up to the end of a row."""

import json

from ft_assets.workers.datasets.intake.kinds import Kind


def whole_rows(head: bytes, kind: Kind) -> bytes:
    """The complete rows in the beginning of a file; b"" if none can be read without the rest."""
    if kind.codec:
        return b""
    if kind.format in ("jsonl", "txt"):
        return head[: head.rfind(b"\n") + 1]
    if kind.format in ("csv", "tsv"):
        return _whole_records(head)
    return _whole_elements(head) if kind.format == "json" else b""


def _whole_records(head: bytes) -> bytes:
    """A CSV up to its last newline outside a quoted field; b"" without such a newline."""
    end, quotes = len(head), head.count(b'"')
    while (start := head.rfind(b"\n", 0, end)) >= 0:
        quotes -= head.count(b'"', start, end)
        if quotes % 2 == 0:
            return head[: start + 1]
        end = start
    return b""


def _whole_elements(head: bytes) -> bytes:
    """A JSON array of the complete elements, or the complete lines of JSON."""
    if head.lstrip()[:1] == b"{":
        try:
            json.loads(head.partition(b"\n")[0])
        except (ValueError, RecursionError):
            return b""
        return head[: head.rfind(b"\n") + 1]
    depth, end, inside, escaped = 0, 0, False, False
    for place, byte in enumerate(head):
        if inside:
            inside = escaped or byte != 0x22
            escaped = byte == 0x5C and not escaped
        elif byte == 0x22:
            inside = True
        elif byte in b"[{":
            depth += 1
        elif byte in b"]}":
            depth -= 1
            end = place + 1 if depth == 1 else end
    return head[:end] + b"]" if end else b""
