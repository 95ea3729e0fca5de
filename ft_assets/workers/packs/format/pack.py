"""Read a pack: the index at once, and its shards on demand, memory-mapped."""

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ft_assets.settings.catalogue.forms import FORMS
from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.format.layout import (
    ARRAYS,
    EXAMPLE_IDS,
    EXAMPLE_ROWS,
    EXAMPLE_WEIGHTS,
    INDEX,
    PAIRS_IN_BLOCK,
    Index,
    Mapped,
    array_name,
)

_RENEWED_S = 60.0
"""Shards are reopened after this long: a cache then sees which are in use, and the space of removed ones is freed."""


class Files(Protocol):
    """The location of a pack's files."""

    def path(self, name: str) -> Path:
        """A complete local file; it may be removed once it is mapped. Raises FileNotFoundError if it does not exist."""
        ...


@dataclass(frozen=True, slots=True)
class Folder:
    """Files in a folder."""

    root: Path

    def path(self, name: str) -> Path:
        return self.root / name


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Whole documents, concatenated, that must not see each other: one row of a batch.

    ``input_ids`` int32 [tokens] and ``learned`` bool [tokens] are read-only views of the files if the requested windows
    are adjacent. ``document_lengths`` int64, ``examples`` int64 (indices for ``Pack.example_id``) and ``pieces`` int32
    are by document.
    """

    input_ids: NDArray[np.int32]
    learned: NDArray[np.bool_]
    document_lengths: NDArray[np.int64]
    examples: NDArray[np.int64]
    pieces: NDArray[np.int32]


class Shard:
    """One shard's arrays, each mapped on first use; offsets and numbers of documents are relative to the shard."""

    input_ids = Mapped[np.int32]()
    learned = Mapped[np.bool_]()
    document_offsets = Mapped[np.int64]()
    window_offsets = Mapped[np.int64]()
    examples = Mapped[np.int64]()
    pieces = Mapped[np.int32]()

    def __init__(self, files: Files, split: str, number: int) -> None:
        self._files, self._split, self._number = files, split, number
        self.opened = time.monotonic()

    def read(self, first: int, last: int) -> Window:
        """The windows ``first`` to ``last - 1`` of the shard, without copying."""
        start, end = int(self.window_offsets[first]), int(self.window_offsets[last])
        edges = self.document_offsets[start : end + 1]
        tokens = slice(int(edges[0]), int(edges[-1]))
        return Window(
            input_ids=self.input_ids[tokens],
            learned=self.learned[tokens],
            document_lengths=np.diff(edges),
            examples=self.examples[start:end],
            pieces=self.pieces[start:end],
        )

    def _mapped(self, name: str) -> NDArray[Any]:
        return _mapped(self._files, array_name(self._split, self._number, name))


class Pack:
    """One split of a token pack. Opening reads only the index; reading costs only what is read."""

    def __init__(self, files: Files, split: str, index: Index) -> None:
        self.files, self.split, self.index = files, split, index
        self._first_windows = offsets_of(np.array([shard.windows for shard in index.shards], np.int64)).tolist()
        self._shards: dict[int, Shard] = {}

    @classmethod
    def open(cls, files: Path | Files, split: str) -> "Pack":
        """The split ``split`` of the pack in a folder, or in ``files``.

        Raises FileNotFoundError if it does not exist, ValueError for an unreadable index.
        """
        source: Files = Folder(files) if isinstance(files, Path) else files
        index = Index.model_validate_json(source.path(f"{split}/{INDEX}").read_bytes())
        return cls(source, split, index)

    def __len__(self) -> int:
        """The number of windows."""
        return self.index.windows

    @property
    def block(self) -> int:
        """This many adjacent windows are of similar length and best read together (``Order.block``); 1 for any."""
        return PAIRS_IN_BLOCK if FORMS[self.index.form].own_windows else 1

    def read(self, windows: Iterable[int]) -> Window:
        """The windows with these numbers as one row, in the order given.

        A training's rank reads ``windows[rank::world]``. Raises IndexError outside 0 .. len(self) - 1.
        """
        parts = [self._shard(shard).read(first, last) for shard, first, last in self._runs(windows)]
        if len(parts) == 1:
            return parts[0]
        return Window(
            input_ids=_joined([part.input_ids for part in parts], ARRAYS["input_ids"]),
            learned=_joined([part.learned for part in parts], ARRAYS["learned"]),
            document_lengths=_joined([part.document_lengths for part in parts], np.int64),
            examples=_joined([part.examples for part in parts], ARRAYS["examples"]),
            pieces=_joined([part.pieces for part in parts], ARRAYS["pieces"]),
        )

    def names(self, windows: Iterable[int]) -> Iterator[str]:
        """The files needed to read these windows, in the order of first use.

        Lazy, and exhausted once every shard was named, however many windows follow.
        """
        left = set(range(len(self.index.shards)))
        for shard, _, _ in self._runs(windows):
            if shard in left:
                left.remove(shard)
                yield from (array_name(self.split, shard, name) for name in ARRAYS)
                if not left:
                    return

    def examples_of(self, windows: Iterable[int]) -> NDArray[np.int64]:
        """The example of each document in ``windows``, int64 [documents], without reading tokens."""
        parts = []
        for number, first, last in self._runs(windows):
            shard = self._shard(number)
            parts.append(shard.examples[shard.window_offsets[first] : shard.window_offsets[last]])
        return _joined(parts, np.int64)

    def documents_by_example(self) -> NDArray[np.int64]:
        """How many documents each packed row of the dataset became, int64 [examples]; reads every shard."""
        counts = np.zeros(self.index.examples, np.int64)
        for shard in self.shards():
            counts += np.bincount(shard.examples, minlength=self.index.examples)
        return counts

    def shards(self) -> Iterator[Shard]:
        """The shards in order, for callers that read everything."""
        return map(self._shard, range(len(self.index.shards)))

    @cached_property
    def window_lengths(self) -> NDArray[np.int64]:
        """Tokens of each window, int64 [windows]; reads the offsets of every shard."""
        return _joined([np.diff(shard.document_offsets[shard.window_offsets]) for shard in self.shards()], np.int64)

    def example_id(self, index: int) -> str:
        """The dataset's id (sha256, hexadecimal) of example ``index``."""
        return bytes(self.example_ids[index]).hex()

    def example_row(self, index: int) -> int:
        """The upload's row of example ``index``."""
        return int(self.example_rows[index])

    @cached_property
    def example_ids(self) -> NDArray[np.uint8]:
        """Ids of the packed rows of the dataset, uint8 [examples, 32], mapped."""
        return _mapped(self.files, f"{self.split}/{EXAMPLE_IDS}")

    @cached_property
    def example_rows(self) -> NDArray[np.int64]:
        """Rows of the upload of the packed rows of the dataset, int64 [examples], mapped."""
        return _mapped(self.files, f"{self.split}/{EXAMPLE_ROWS}")

    def weights_of(self, examples: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """How much each of these examples counts in training, float64 [examples]; None if all count the same."""
        return self._weights[examples] if self.index.weighed else None

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        return _mapped(self.files, f"{self.split}/{EXAMPLE_WEIGHTS}")

    def _shard(self, number: int) -> Shard:
        oldest = time.monotonic() - _RENEWED_S
        shard = self._shards.get(number)
        if shard is None or shard.opened < oldest:
            self._shards = {other: kept for other, kept in self._shards.items() if kept.opened >= oldest}
            shard = self._shards[number] = Shard(self.files, self.split, number)
        return shard

    def _runs(self, windows: Iterable[int]) -> Iterator[tuple[int, int, int]]:
        """(shard, first, last): runs of adjacent windows, relative to the shard."""
        run: tuple[int, int, int] | None = None
        for window in windows:
            if not 0 <= window < len(self):
                raise IndexError(f"window {window} of {len(self)}")
            shard = bisect_right(self._first_windows, window) - 1
            inside = int(window) - self._first_windows[shard]
            if run is not None and run[0] == shard and run[2] == inside:
                run = (shard, run[1], inside + 1)
                continue
            if run is not None:
                yield run
            run = (shard, inside, inside + 1)
        if run is not None:
            yield run


def _joined(parts: Sequence[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *parts]).astype(kind, copy=False)


def _mapped(files: Files, name: str) -> NDArray[Any]:
    """The array in file ``name``, read-only: a plain array over the map, as slices of ``np.memmap`` cost far more."""
    try:
        array: NDArray[Any] = np.load(files.path(name), mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        # Another process may evict the file between the two; then it is fetched again.
        array = np.load(files.path(name), mmap_mode="r", allow_pickle=False)
    return np.asarray(array)
