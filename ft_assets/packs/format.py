"""The files of a token pack: flat memory-mapped arrays, so opening one costs the same at any size.

Per split, with ``T`` tokens, ``D`` documents and ``W`` windows::

    <split>.input_ids.npy         int32 [T]      documents lie in window order, one behind the other
    <split>.labels.npy            int32 [T]      the ids where the model learns, else -100; not shifted
    <split>.document_offsets.npy  int64 [D + 1]  document d holds tokens offsets[d] .. offsets[d + 1]
    <split>.window_offsets.npy    int64 [W + 1]  window w holds documents offsets[w] .. offsets[w + 1]
    <split>.examples.npy          int32 [D]      index of the document's example in the list below
    <split>.example_ids.json      [dataset id]   of the packed examples, in the dataset's order

    window 0                       window 1
    | document 0 | document 1    | document 2 |    document_offsets 0 . . . ., window_offsets 0 2 3
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ft_resources.canonical import canonical_json

TRAIN, VALIDATION = "train", "validation"
SPLITS = (TRAIN, VALIDATION)
IGNORED = -100
"""The label of a token that the loss does not look at (PyTorch's ``ignore_index``)."""

_ARRAYS: dict[str, type] = {
    "input_ids": np.int32,
    "labels": np.int32,
    "document_offsets": np.int64,
    "window_offsets": np.int64,
    "examples": np.int32,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Documents:
    """Tokenized examples, one document each, in the dataset's order.

    ``input_ids`` and ``labels`` are int32 [tokens], ``offsets`` int64 [documents + 1].
    ``example_ids`` are the dataset's ids.
    """

    input_ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    offsets: NDArray[np.int64]
    example_ids: list[str]

    def __post_init__(self) -> None:
        assert len(self.input_ids) == len(self.labels) == self.offsets[-1]
        assert len(self.offsets) == len(self.example_ids) + 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each document, int64 [documents]."""
        return np.diff(self.offsets)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Which documents share a window: window w holds ``order[window_offsets[w] : window_offsets[w + 1]]``.

    ``order`` is int64 [documents], a permutation; ``window_offsets`` int64 [windows + 1].
    """

    order: NDArray[np.int64]
    window_offsets: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """One row of a batch: whole documents one behind the other, which must not see each other.

    ``input_ids`` and ``labels`` are int32 [tokens] and read-only views of the file, ``document_lengths`` is
    int64 [documents].
    """

    input_ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    document_lengths: NDArray[np.int64]
    example_ids: list[str]


def write_split(folder: Path, split: str, documents: Documents, layout: Layout) -> None:
    """Write the files of one split into ``folder``, the documents in the layout's order."""
    order = layout.order
    assert len(order) == len(documents.example_ids)
    lengths = documents.lengths[order]
    offsets = _offsets(lengths)
    # A packed token comes from document order[d], at the same distance from that document's start.
    source = np.repeat(documents.offsets[:-1][order] - offsets[:-1], lengths) + np.arange(offsets[-1])
    arrays = {
        "input_ids": documents.input_ids[source],
        "labels": documents.labels[source],
        "document_offsets": offsets,
        "window_offsets": layout.window_offsets,
        "examples": order,
    }
    for name, kind in _ARRAYS.items():
        np.save(folder / f"{split}.{name}.npy", arrays[name].astype(kind), allow_pickle=False)
    (folder / f"{split}.example_ids.json").write_bytes(canonical_json(documents.example_ids))


class Pack:
    """One split of a token pack, memory-mapped; indexing costs what the window holds."""

    def __init__(self, folder: Path, split: str, arrays: dict[str, NDArray[Any]]) -> None:
        self.folder, self.split = folder, split
        self.input_ids: NDArray[np.int32] = arrays["input_ids"]
        self.labels: NDArray[np.int32] = arrays["labels"]
        self.document_offsets: NDArray[np.int64] = arrays["document_offsets"]
        self.window_offsets: NDArray[np.int64] = arrays["window_offsets"]
        self.examples: NDArray[np.int32] = arrays["examples"]

    @classmethod
    def open(cls, folder: Path, split: str) -> "Pack":
        """The split ``split`` of the pack in ``folder``. Raises FileNotFoundError where a file is missing."""
        return cls(folder, split, {name: _load(folder / f"{split}.{name}.npy") for name in _ARRAYS})

    def __len__(self) -> int:
        """The number of windows."""
        return len(self.window_offsets) - 1

    @property
    def tokens(self) -> int:
        return len(self.input_ids)

    @property
    def documents(self) -> int:
        return len(self.examples)

    @cached_property
    def learned_tokens(self) -> int:
        """Tokens with a label."""
        return int(np.count_nonzero(self.labels != IGNORED))

    @cached_property
    def example_ids(self) -> list[str]:
        """Dataset ids of the packed examples; ``examples`` indexes this list."""
        ids: list[str] = json.loads((self.folder / f"{self.split}.example_ids.json").read_bytes())
        return ids

    @property
    def window_lengths(self) -> NDArray[np.int64]:
        """Tokens of each window, int64 [windows]."""
        return np.diff(self.document_offsets[self.window_offsets])

    def window(self, index: int) -> Window:
        """Window ``index``. Raises IndexError outside 0 .. len(self) - 1."""
        if not 0 <= index < len(self):
            raise IndexError(f"window {index} of {len(self)}")
        first, last = int(self.window_offsets[index]), int(self.window_offsets[index + 1])
        start, end = int(self.document_offsets[first]), int(self.document_offsets[last])
        return Window(
            input_ids=self.input_ids[start:end],
            labels=self.labels[start:end],
            document_lengths=np.diff(self.document_offsets[first : last + 1]),
            example_ids=[self.example_ids[example] for example in self.examples[first:last]],
        )


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def _load(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array
