"""What makes two examples the same, and two prompts the same; and all words of an example as one text."""

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ft_assets.datasets.buffers import text_buffers
from ft_assets.datasets.columns import TURN

_TURNS = ("messages", "chosen", "rejected")
_SINGLE = ("text", "tools")
# A row of more than 64 KiB would hold up those that are hashed with it.
_MOST_BLOCKS = 1024


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """All texts of a batch, as kernels take them.

    There are 17 columns of texts: the five fields of the turns in ``messages``, ``chosen`` and ``rejected``, then
    ``text`` and ``tools``. Most are empty in most batches.

    Args:
        rows: of the batch.
        lists: int32 [3, rows + 1], where each row's turns begin and end in the three columns of turns.
        first: int64 [17], where a column's offsets begin in ``offsets``; -1 for a column without a byte.
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
        lists = np.zeros((len(_TURNS), rows + 1), np.int32)
        columns = []
        for number, name in enumerate(_TURNS):
            column = examples.column(name)
            if rows:
                ends = np.asarray(column.offsets)
                np.subtract(ends, ends[0], out=lists[number])
            # flatten() cuts the turns to those of this batch, whose offsets may start later.
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
        """In all three columns."""
        return int(self.lists[:, -1].sum())


def content_keys(examples: pa.RecordBatch) -> pa.FixedSizeBinaryArray:
    """sha256 of everything in each example that is learned from, binary(32).

    That is every field of its turns, its text and its tools, each with its length before it; spaces, tabs and line
    feeds around contents and text do not count. Row number, group, kind and page are no part of it.
    """
    from ft_assets.datasets.forms.keys_kernel import BLOCK, MOST_ADDED, content_blocks
    from ft_assets.datasets.forms.sha256_kernel import digest_blocks

    columns = _Columns.of(examples)
    most = len(columns.data) + 4 * len(TURN) * columns.turns + MOST_ADDED * columns.rows
    out = np.empty(most, np.uint8)
    starts, lengths = content_blocks(columns.rows, columns.lists, columns.first, columns.offsets, columns.data, out)
    blocks = np.diff(starts)
    digests = np.empty((columns.rows, 32), np.uint8)
    # Rows of like length are hashed together.
    order = np.argsort(blocks, kind="stable")
    words = out[: starts[-1] * BLOCK].view(np.uint32)
    digest_blocks(words, starts, order[blocks[order] <= _MOST_BLOCKS], digests)
    for row in order[blocks[order] > _MOST_BLOCKS].tolist():
        begin = int(starts[row]) * BLOCK
        digests[row] = np.frombuffer(hashlib.sha256(out[begin : begin + lengths[row]].data).digest(), np.uint8)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), columns.rows, [None, pa.py_buffer(digests)])


def prompt_keys(examples: pa.RecordBatch) -> pa.UInt64Array:
    """A hash of how each example begins: its turns up to the user's turn by which users have said 64 bytes.

    Conversations that grow turn by turn over several rows so have one key; those that share only a greeting do not.
    Where users say less than that, it is all turns up to their last one; for plain text, the whole text. Spaces, tabs
    and line feeds around a content do not count.
    """
    from ft_assets.datasets.forms.keys_kernel import prompt_hashes

    columns = _Columns.of(examples)
    return pa.array(prompt_hashes(columns.rows, columns.lists, columns.first, columns.offsets, columns.data))


def flat_texts(examples: pa.RecordBatch) -> pa.StringArray:
    """All words of each example: the contents and tool calls of its turns and its text, joined by line feeds."""
    from ft_assets.datasets.forms.keys_kernel import flat_bytes

    columns = _Columns.of(examples)
    out = np.empty(len(columns.data) + 2 * columns.turns + columns.rows, np.uint8)
    ends = np.zeros(columns.rows + 1, np.int32)
    flat_bytes(columns.rows, columns.lists, columns.first, columns.offsets, columns.data, out, ends)
    return pa.StringArray.from_buffers(columns.rows, pa.py_buffer(ends), pa.py_buffer(out[: ends[-1]]))
