"""Keys by which two examples, or two prompts, count as the same; and texts of an example as one text."""

import hashlib
import itertools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ft_assets.workers.datasets.buffers import text_buffers
from ft_assets.workers.datasets.columns import TURN, TURN_COLUMNS
from ft_assets.workers.datasets.forms import plain_keys
from ft_assets.workers.libraries import COMPILES

_SINGLE = ("text", "tools")


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """All texts of a batch, in the form that kernels take.

    There are 17 columns of texts: the five fields of the turns in ``messages``, ``chosen`` and ``rejected``, then
    ``text`` and ``tools``. Most are empty in most batches.

    Args:
        rows: number of rows in the batch.
        lists: int32 [3, rows + 1], where each row's turns begin and end in the three columns of turns.
        first: int64 [17], where a column's offsets begin in ``offsets``; -1 for a column without any bytes.
        offsets: int64, where the texts of each column begin and end in ``data``, column by column.
        data: uint8, UTF-8.
    """

    rows: int
    lists: NDArray[np.int32]
    first: NDArray[np.int64]
    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]

    @classmethod
    def of(cls, examples: pa.RecordBatch) -> "_Columns":
        rows = examples.num_rows
        lists = np.zeros((len(TURN_COLUMNS), rows + 1), np.int32)
        columns = []
        for number, name in enumerate(TURN_COLUMNS):
            column = examples.column(name)
            if rows:
                ends = np.asarray(column.offsets)
                np.subtract(ends, ends[0], out=lists[number])
            # flatten() returns only this batch's turns, whose offsets may start later.
            values = column.flatten()
            columns += [values.field(index) for index in range(len(TURN))]
        columns += [examples.column(name) for name in _SINGLE]
        first = np.full(len(columns), -1, np.int64)
        offsets, data = [np.zeros(0, np.int64)], []
        entries = size = 0
        for number, column in enumerate(columns):
            ends, letters = text_buffers(column)
            if ends[-1] > ends[0]:
                first[number] = entries
                offsets.append(ends.astype(np.int64) + (size - int(ends[0])))
                data.append(letters[ends[0] : ends[-1]])
                entries += len(ends)
                size += len(data[-1])
        one = data[0] if len(data) == 1 else np.concatenate([np.zeros(0, np.uint8), *data])
        one.flags.writeable = False
        return cls(rows=rows, lists=lists, first=first, offsets=np.concatenate(offsets), data=one)

    @property
    def turns(self) -> int:
        """The number of turns in all three columns."""
        return int(self.lists[:, -1].sum())


def row_ids(contents: pa.FixedSizeBinaryArray) -> list[str]:
    """The rows' ids in a policy: the first 12 hexadecimal digits of their content keys."""
    return [content.hex()[:12] for content in contents.to_pylist()]


def content_keys(examples: pa.RecordBatch) -> pa.FixedSizeBinaryArray:
    """sha256 of everything in each example that is trained on, binary(32).

    That is every field of its turns, its text and its tools, each preceded by its length. Spaces, tabs and line feeds
    around contents and text do not count. Row number, group, kind and page are not included.
    """
    if not COMPILES:
        return pa.array(plain_keys.digests(examples), pa.binary(32))
    from ft_assets.workers.datasets.forms.keys_kernel import ADDED, hashed_bytes

    columns = _Columns.of(examples)
    out = np.empty(len(columns.data) + 4 * len(TURN) * columns.turns + ADDED * columns.rows, np.uint8)
    starts = hashed_bytes(columns.rows, columns.lists, columns.first, columns.offsets, columns.data, out).tolist()
    digests = b"".join(hashlib.sha256(out[start:end].data).digest() for start, end in itertools.pairwise(starts))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), columns.rows, [None, pa.py_buffer(digests)])


def prompt_keys(examples: pa.RecordBatch) -> pa.UInt64Array:
    """A hash of each example's start: its turns up to the user turn at which users have said 64 bytes in total.

    So conversations that grow turn by turn over several rows have the same key; those that share only a greeting do
    not. If users say less than 64 bytes, all turns up to the last user turn count; for plain text, the whole text.
    Spaces, tabs and line feeds around a content do not count.
    """
    if not COMPILES:
        return pa.array(plain_keys.prompt_hashes(examples), pa.uint64())
    from ft_assets.workers.datasets.forms.keys_kernel import prompt_hashes

    columns = _Columns.of(examples)
    return pa.array(prompt_hashes(columns.rows, columns.lists, columns.first, columns.offsets, columns.data))


def flat_texts(examples: pa.RecordBatch) -> pa.StringArray:
    """All texts of each example, joined by line feeds: the contents and tool calls of its turns, and its text."""
    from ft_assets.workers.datasets.forms.keys_kernel import flat_bytes

    columns = _Columns.of(examples)
    out = np.empty(len(columns.data) + 2 * columns.turns + columns.rows, np.uint8)
    ends = np.zeros(columns.rows + 1, np.int32)
    flat_bytes(columns.rows, columns.lists, columns.first, columns.offsets, columns.data, out, ends)
    return pa.StringArray.from_buffers(columns.rows, pa.py_buffer(ends), pa.py_buffer(out[: ends[-1]]))


def answer_texts(examples: pa.RecordBatch) -> tuple[pa.StringArray, pa.StringArray]:
    """The final answers of each example: the chosen and the rejected turns, or the last turn and ""; both are "" for
    plain text."""
    messages, empty = examples.column("messages"), np.zeros(examples.num_rows + 1, np.int32)
    ends = np.asarray(messages.offsets)
    ends = ends - ends[:1]
    lengths = [np.diff(np.asarray(examples.column(name).offsets)) for name in TURN_COLUMNS]
    chat = (lengths[0] > 0) & (lengths[1] == 0) & (lengths[2] == 0)
    turns = messages.flatten()
    last = turns.take(pa.array(ends[1:][chat] - 1))
    columns = {name: pa.ListArray.from_arrays(pa.array(empty), turns.slice(0, 0)) for name in TURN_COLUMNS}
    columns |= {name: pa.array([""] * examples.num_rows, pa.string()) for name in _SINGLE}
    counts = np.concatenate([np.zeros(1, np.int32), np.cumsum(chat, dtype=np.int32)])
    first = {"messages": pa.ListArray.from_arrays(pa.array(counts), last), "chosen": examples.column("chosen")}
    second = {"rejected": examples.column("rejected")}
    texts = [flat_texts(pa.RecordBatch.from_pydict(columns | part)) for part in (first, second)]
    return texts[0], texts[1]


def user_texts(examples: pa.RecordBatch) -> tuple[NDArray[np.int64], pa.StringArray]:
    """The rows in which a user speaks more than once, or not first; what users say in each, joined by line feeds.

    What an assistant says between two halves of a text hides that they belong together, and a system prompt what a user
    opens with.
    """
    turns = examples.column("messages").flatten()
    mine = pc.equal(turns.field(TURN.get_field_index("role")), "user").to_numpy(zero_copy_only=False)
    of_row = pc.list_parent_indices(examples.column("messages")).to_numpy()
    owners, late = of_row[mine], np.zeros(examples.num_rows, np.bool_)
    late[of_row[np.flatnonzero(~mine & (np.diff(of_row, prepend=-1) > 0))]] = True
    said = np.bincount(owners, minlength=examples.num_rows)
    rows = np.flatnonzero((said > 1) | (late & (said > 0)))
    chosen = np.isin(owners, rows)
    texts = turns.field(TURN.get_field_index("content")).filter(pa.array(mine)).filter(pa.array(chosen))
    ends = np.append(0, np.cumsum(said[rows])).astype(np.int32)
    return rows, pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), texts), "\n")


def asked_texts(examples: pa.RecordBatch) -> pa.StringArray:
    """What users say in each example, joined by line feeds; of an example without turns, its text."""
    turns = examples.column("messages").flatten()
    mine = pa.array(pc.equal(turns.field(TURN.get_field_index("role")), "user"))
    owners = pc.list_parent_indices(examples.column("messages")).filter(mine).to_numpy()
    ends = np.append(0, np.cumsum(np.bincount(owners, minlength=examples.num_rows))).astype(np.int32)
    texts = turns.field(TURN.get_field_index("content")).filter(mine)
    said = pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), texts), "\n")
    return pc.if_else(pc.equal(said, ""), examples.column("text"), said)
