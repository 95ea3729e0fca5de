"""Examples and keys for tests, made by hand."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from ft_assets.workers.datasets.columns import EXAMPLES


def turn(role: str, content: str, tool_calls: str = "") -> dict[str, str]:
    return {"role": role, "content": content, "tool_calls": tool_calls, "tool_call_id": "", "name": ""}


def row(**fields: Any) -> dict[str, Any]:
    empty = {"messages": [], "chosen": [], "rejected": [], "text": "", "tools": "", "group": "", "kind": "", "page": 0}
    return {"row": 1, **empty, **fields}


def chat(answer: str, question: str = "Why?") -> dict[str, Any]:
    return row(messages=[turn("user", question), turn("assistant", answer)])


def batch(rows: Sequence[dict[str, Any]]) -> tuple[pa.RecordBatch, pa.Array]:
    """The rows as EXAMPLES, and all words of each, joined by line feeds."""
    texts = [
        "\n".join([t["content"] for name in ("messages", "chosen", "rejected") for t in each[name]]) or each["text"]
        for each in rows
    ]
    return pa.RecordBatch.from_pylist(list(rows), schema=EXAMPLES), pa.array(texts, pa.string())


def keys_of(values: Iterable[Any]) -> pa.FixedSizeBinaryArray:
    """A content key for each value."""
    return pa.array([hashlib.sha256(repr(value).encode()).digest() for value in values], pa.binary(32))
