"""What the writer and the reader of a pack agree on: names, types, and the index.

Documents lie one behind the other, and whole windows of them::

    window 0                       window 1
    | document 0 | document 1    | document 2 |    document_offsets 0 . . . ., window_offsets 0 2 3
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

TRAIN, VALIDATION = "train", "validation"
SPLITS = (TRAIN, VALIDATION)
SHARD_TOKENS = 2**26
"""Tokens that a shard holds at most, so that its files are fetched in seconds."""
PAIRS_IN_BLOCK = 64
"""Windows of a preference pack come in blocks of similar length, so that what is read together has about one size."""
INDEX = "index.json"
EXAMPLE_IDS, EXAMPLE_ROWS = "examples.ids.npy", "examples.rows.npy"
ID_BYTES = 32
ARRAYS: dict[str, type] = {
    "input_ids": np.int32,
    "learned": np.bool_,
    "document_offsets": np.int64,
    "window_offsets": np.int64,
    "examples": np.int64,
    "pieces": np.int32,
}
"""The files of each shard and what they hold."""
Form = Literal["chat", "text", "preference"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ShardSize(_Record):
    """How much one shard holds."""

    windows: int
    documents: int
    tokens: int


class Index(_Record):
    """``index.json``: all that opening a split needs. ``examples`` counts rows of the dataset, however many documents
    each became; ``learned_tokens`` counts flags as they are stored."""

    form: Form
    max_length: int
    examples: int
    documents: int
    windows: int
    tokens: int
    learned_tokens: int
    shards: list[ShardSize]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Which documents share a window: window w holds ``order[window_offsets[w] : window_offsets[w + 1]]``.

    ``order`` is int64 [documents], a permutation; ``window_offsets`` int64 [windows + 1].
    """

    order: NDArray[np.int64]
    window_offsets: NDArray[np.int64]


def array_name(split: str, shard: int, name: str) -> str:
    """The file of one array of one shard, below the pack's folder."""
    return f"{split}/{shard:05d}.{name}.npy"


def offsets_of(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Where things of these lengths start and the last one ends, int64 [things + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
