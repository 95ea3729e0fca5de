"""What makes two examples the same, and two prompts the same; and all words of an example as one text."""

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ft_assets.datasets.columns import TURN

_TURNS = ("messages", "chosen", "rejected")
_SINGLE = ("text", "tools")

Buffers = tuple[NDArray[np.int32], ...]


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """All texts of a batch as numpy arrays over Arrow's own memory.

    ``lists`` has the offsets of the three columns of turns; ``offsets`` and ``data`` hold the five fields of each of
    them, one column after another, then ``text`` and ``tools``.
    """

    rows: int
    lists: Buffers
    offsets: Buffers
    data: tuple[NDArray[np.uint8], ...]

    @classmethod
    def of(cls, examples: pa.RecordBatch) -> "_Columns":
        lists, strings = [], []
        for name in _TURNS:
            column = examples.column(name)
            ends = np.asarray(column.offsets) if len(column) else np.zeros(1, np.int32)
            # flatten() cuts the turns to those of this batch, whose offsets may start later.
            lists.append(_read_only(ends - ends[0]))
            values = column.flatten()
            strings += [values.field(index) for index in range(len(TURN))]
        strings += [examples.column(name) for name in _SINGLE]
        pairs = [_buffers(array) for array in strings]
        return cls(
            rows=examples.num_rows,
            lists=tuple(lists),
            offsets=tuple(offsets for offsets, _ in pairs),
            data=tuple(data for _, data in pairs),
        )

    @property
    def most_bytes(self) -> int:
        """At least as many bytes as all texts of all rows take, each with its length in 4 bytes before it."""
        texts = sum(int(offsets[-1]) - int(offsets[0]) for offsets in self.offsets)
        return texts + 4 * (sum(len(offsets) for offsets in self.offsets) + len(_TURNS) * self.rows)


def content_keys(examples: pa.RecordBatch) -> pa.FixedSizeBinaryArray:
    """sha256 of everything in each example that is learned from, binary(32).

    That is every field of its turns, its text and its tools, each with its length before it; spaces, tabs and line
    feeds around contents and text do not count. Row number, group, kind and page are no part of it.
    """
    from ft_assets.datasets.forms.keys_kernel import content_bytes

    columns = _Columns.of(examples)
    out = np.empty(columns.most_bytes, np.uint8)
    ends = content_bytes(columns.rows, columns.lists, columns.offsets, columns.data, out).tolist()
    view, sha256 = memoryview(out.data), hashlib.sha256
    digests = b"".join([sha256(view[start:end]).digest() for start, end in zip([0, *ends], ends, strict=False)])
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), columns.rows, [None, pa.py_buffer(digests)])


def prompt_keys(examples: pa.RecordBatch) -> pa.UInt64Array:
    """A hash of how each example begins: its turns up to the user's turn by which users have said 64 bytes.

    Conversations that grow turn by turn over several rows so have one key; those that share only a greeting do not.
    Where users say less than that, it is all turns up to their last one; for plain text, the whole text. Spaces, tabs
    and line feeds around a content do not count.
    """
    from ft_assets.datasets.forms.keys_kernel import prompt_hashes

    columns = _Columns.of(examples)
    return pa.array(prompt_hashes(columns.rows, columns.lists, columns.offsets, columns.data))


def flat_texts(examples: pa.RecordBatch) -> pa.StringArray:
    """All words of each example: the contents and tool calls of its turns and its text, joined by line feeds."""
    from ft_assets.datasets.forms.keys_kernel import flat_bytes

    columns = _Columns.of(examples)
    out = np.empty(columns.most_bytes, np.uint8)
    offsets = np.zeros(columns.rows + 1, np.int32)
    flat_bytes(columns.rows, columns.lists, columns.offsets, columns.data, out, offsets)
    data = out[: offsets[-1]].copy()
    return pa.StringArray.from_buffers(columns.rows, pa.py_buffer(offsets), pa.py_buffer(data))


def _buffers(array: pa.StringArray) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    _, offsets, data = array.buffers()
    if not len(array) or offsets is None:
        return _read_only(np.zeros(1, np.int32)), np.frombuffer(b"", np.uint8)
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return _read_only(ends), _read_only(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8))


def _read_only(array: NDArray) -> NDArray:
    """``array``, of the one type that the kernels are compiled for whether Arrow's memory may be written or not."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
