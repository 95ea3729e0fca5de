"""The Arrow schemas of curation: one canonical form for every example, whatever form it was uploaded in."""

from collections.abc import Callable

import pyarrow as pa

TURN = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("tool_calls", pa.string()),
        ("tool_call_id", pa.string()),
        ("name", pa.string()),
    ]
)
"""One turn. ``tool_calls`` is a JSON list of ``{"id", "type", "function": {"name", "arguments": object}}``. Fields that
a turn does not have are "", never null; only ``content`` of an assistant turn with tool calls may be "" itself."""

EXAMPLES = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("messages", pa.list_(TURN), nullable=False),
        pa.field("chosen", pa.list_(TURN), nullable=False),
        pa.field("rejected", pa.list_(TURN), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("tools", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("page", pa.int32(), nullable=False),
    ]
)
"""Examples as kernels pass them on. Chat: ``messages``. Preference: ``messages`` is the prompt, ``chosen`` and
``rejected`` the turns that follow. Plain text: ``text``. Columns that a kind of data does not use are empty, never
null. ``row`` is the 1-based row in the file (inside a chunk: in the chunk); ``tools`` a JSON list of tool definitions
or ""; ``page`` the 1-based page of a PDF or 0."""

WEIGHT = pa.field("weight", pa.float64(), nullable=False)
"""How much an example counts in training, the last column of EXAMPLES where a policy names the field that says it."""


def with_weight(schema: pa.Schema, *, weighed: bool) -> pa.Schema:
    """``schema``, with WEIGHT as its last column if examples are ``weighed``."""
    return schema.append(WEIGHT) if weighed else schema


TURN_COLUMNS = ("messages", "chosen", "rejected")
"""The columns of EXAMPLES that hold turns."""

BAD_ROWS = pa.schema([("row", pa.int64()), ("reason", pa.string()), ("field", pa.string()), ("problem", pa.string())])
"""Rows that cannot be used; ``problem`` never quotes the row's text."""

LISTED_BAD = 200
"""At most this many bad rows of each reason are kept, as many as a report lists; the others are only counted."""


def map_texts(examples: pa.RecordBatch, change: Callable[[pa.Array], pa.Array]) -> pa.RecordBatch:
    """``examples`` with ``change`` (string array to string array of equal length) applied to all their texts.

    The texts are the content and tool calls of every turn, and plain text. Structure and other columns stay the same.
    """
    columns = []
    for field in examples.schema:
        column = examples.column(field.name)
        if field.name in TURN_COLUMNS:
            column = _map_turns(column, change)
        elif field.name == "text":
            column = change(column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=examples.schema)


def _map_turns(turns: pa.ListArray, change: Callable[[pa.Array], pa.Array]) -> pa.ListArray:
    # A slice's offsets do not start at 0; flatten() cuts the values to the slice.
    offsets = turns.offsets
    values = turns.flatten()
    start = offsets[0].as_py() if len(offsets) else 0
    if start:
        import pyarrow.compute as pc

        offsets = pc.subtract(offsets, start).cast(pa.int32())
    fields = [
        change(values.field(index)) if field.name in ("content", "tool_calls") else values.field(index)
        for index, field in enumerate(TURN)
    ]
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(fields, fields=list(TURN)))
