"""The format shared by a pack's writer and reader: names, types, and the index.

Documents are concatenated, in whole windows::

    window 0                       window 1
    | document 0 | document 1    | document 2 |    document_offsets 0 . . . ., window_offsets 0 2 3
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ft_assets.settings.catalogue.forms import FormName
from ft_resources.strict_model import StrictModel, added_field

TRAIN, VALIDATION = "train", "validation"
SPLITS = (TRAIN, VALIDATION)
SHARD_TOKENS = 2**26
"""Maximum tokens of a shard, so that its files are fetched in seconds."""
PAIRS_IN_BLOCK = 64
"""Windows of a preference pack come in blocks of similar length, so that windows read together have about one size."""
INDEX = "index.json"
EXAMPLE_IDS, EXAMPLE_ROWS, EXAMPLE_WEIGHTS = "examples.ids.npy", "examples.rows.npy", "examples.weights.npy"
ID_BYTES = 32
ARRAYS: dict[str, type] = {
    "input_ids": np.int32,
    "learned": np.bool_,
    "document_offsets": np.int64,
    "window_offsets": np.int64,
    "examples": np.int64,
    "pieces": np.int32,
}
"""The files of each shard and their contents."""


Kind = TypeVar("Kind", bound=np.generic)


class ShardSize(StrictModel):
    """Size of one shard."""

    windows: int
    documents: int
    tokens: int


class Index(StrictModel):
    """``index.json``: everything needed to open a split. ``examples`` counts rows of the dataset, however many
    documents each became; ``learned_tokens`` counts stored flags; ``weighed``: whether examples have weights."""

    form: FormName
    max_length: int
    examples: int
    documents: int
    windows: int
    tokens: int
    learned_tokens: int
    weighed: bool = added_field(False)
    shards: list[ShardSize]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Which documents share a window: window w holds ``order[window_offsets[w] : window_offsets[w + 1]]``.

    ``order`` is int64 [documents], a permutation; ``window_offsets`` int64 [windows + 1].
    """

    order: NDArray[np.int64]
    window_offsets: NDArray[np.int64]


def array_name(split: str, shard: int, name: str) -> str:
    """The path of one array of one shard, below the pack's folder."""
    return f"{split}/{shard:05d}.{name}.npy"


class Mapped(cached_property[NDArray[Kind]], Generic[Kind]):
    """An array in a file, mapped on first use: ``lengths = Mapped[np.int64]()`` in a class whose ``_mapped(name)``
    opens the array called ``lengths``."""

    def __init__(self) -> None:
        super().__init__(lambda owner: owner._mapped(self.attrname))
