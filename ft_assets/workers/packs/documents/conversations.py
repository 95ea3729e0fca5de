"""The turns of a batch of rows, from Arrow columns without a dictionary per turn."""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ft_assets.workers.offsets import offsets_of

_ADDED = ("tool_calls", "tool_call_id", "name")


class Shape(NamedTuple):
    """What conversations of one skeleton have in common: the roles, and how many messages are the prompt."""

    roles: tuple[str, ...]
    prompt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversations:
    """The conversations of a batch, one per document.

    Args:
        shapes: each conversation's shape; None if it has more than roles and contents (tools, calls, names).
        contents: the contents of each conversation's messages.
    """

    shapes: list[Shape | None]
    contents: list[list[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Turns:
    """A flattened column of lists of turns: row ``i`` has the turns ``edges[i] .. edges[i + 1]``."""

    edges: list[int]
    roles: list[str]
    contents: list[str]
    rich: NDArray[np.bool_]
    """bool [rows], rows with a turn that has more than a role and a content."""


def conversations(batch: pa.RecordBatch) -> Conversations:
    """The rows of a chat dataset."""
    turns = _turns(batch, "messages")
    rich = (turns.rich | _filled(batch, "tools")).tolist()
    return Conversations(
        shapes=[
            None if odd else Shape(tuple(turns.roles[start:end]), 0)
            for odd, start, end in zip(rich, turns.edges, turns.edges[1:], strict=False)
        ],
        contents=[turns.contents[start:end] for start, end in zip(turns.edges, turns.edges[1:], strict=False)],
    )


def each_turn(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.int64], int]:
    """The rows of a chat dataset, each as many as it has turns of the assistant, with the messages up to one of them;
    the row in ``batch`` of each, int64 [turns]; and the number of turns that are left out.

    These are turns before the first question or result of a tool, if there are others.
    """
    turns = _turns(batch, "messages")
    of, left_out = list[int](), 0
    places: list[NDArray[np.int64]] = []
    for row, (start, end) in enumerate(itertools.pairwise(turns.edges)):
        roles = turns.roles[start:end]
        first = next((place for place, role in enumerate(roles) if role in ("user", "tool")), end)
        spoken = [place for place, role in enumerate(roles) if role == "assistant"]
        # Without a turn a row is as it is: what is wrong with it is told where it is labelled.
        ends = [place + 1 for place in spoken if place > first] or [end - start]
        left_out += max(0, len(spoken) - len(ends))
        of += [row] * len(ends)
        places += [np.arange(start, start + length) for length in ends]
    edges = offsets_of(np.array([len(each) for each in places], np.int64)).astype(np.int32)
    chosen = batch.column("messages").flatten().take(pa.array(np.concatenate([np.empty(0, np.int64), *places])))
    rows = batch.take(pa.array(of, pa.int64()))
    column = rows.schema.get_field_index("messages")
    messages = pa.ListArray.from_arrays(pa.array(edges), chosen).cast(rows.schema.field(column).type)
    return rows.set_column(column, rows.schema.field(column), messages), np.array(of, np.int64), left_out


def pairs(batch: pa.RecordBatch) -> Conversations:
    """The rows of a preference dataset, each as two conversations: the prompt with the chosen and with the rejected
    answer."""
    prompts = _turns(batch, "messages")
    answers = [_turns(batch, side) for side in ("chosen", "rejected")]
    tools = _filled(batch, "tools")
    shapes: list[Shape | None] = []
    contents: list[list[str]] = []
    for row in range(batch.num_rows):
        start, end = prompts.edges[row : row + 2]
        for answer in answers:
            first, last = answer.edges[row : row + 2]
            odd = tools[row] or prompts.rich[row] or answer.rich[row]
            roles = (*prompts.roles[start:end], *answer.roles[first:last])
            shapes.append(None if odd else Shape(roles, end - start))
            contents.append(prompts.contents[start:end] + answer.contents[first:last])
    return Conversations(shapes=shapes, contents=contents)


def _turns(batch: pa.RecordBatch, name: str) -> _Turns:
    column = batch.column(name)
    offsets = np.asarray(column.offsets)
    edges = (offsets - offsets[:1]).astype(np.int64)
    flat = column.flatten()
    odd = np.zeros(len(flat), np.bool_)
    for field in ("role", "content"):
        odd |= np.asarray(flat.field(field).is_null())
    for field in _ADDED:
        if flat.type.get_field_index(field) >= 0:
            odd |= np.asarray(pc.fill_null(pc.binary_length(flat.field(field)), 0)) > 0
    counts = offsets_of(odd)
    return _Turns(
        edges=edges.tolist(),
        roles=flat.field("role").to_pylist(),
        contents=flat.field("content").to_pylist(),
        rich=counts[edges[1:]] > counts[edges[:-1]],
    )


def _filled(batch: pa.RecordBatch, name: str) -> NDArray[np.bool_]:
    if batch.schema.get_field_index(name) < 0:
        return np.zeros(batch.num_rows, np.bool_)
    filled: NDArray[np.bool_] = np.asarray(pc.fill_null(pc.binary_length(batch.column(name)), 0)) > 0
    return filled
