"""Documents on their way into a pack: flat temporary files in the dataset's order, so that memory holds no tokens."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.format.layout import ID_BYTES, Mapped


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """The documents of a batch of rows, in the order of the rows.

    Args:
        input_ids: int32 [tokens], concatenated documents.
        learned: bool [tokens].
        offsets: int64 [documents + 1].
        example: int64 [documents], the document's row in the batch.
        controls: int32 [documents], number of control tokens from the template itself.
        shortened: int32 [documents], tokens removed by ``truncate``.
        ids: uint8 [rows, 32], the rows' ids.
        rows: int64 [rows], their rows in the upload.
        first_pieces: int32 [rows], the number of each row's first document; None: 0 for all.
        weights: float64 [rows], how much each row counts in training; None if rows have no weights.
    """

    input_ids: NDArray[np.int32]
    learned: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    example: NDArray[np.int64]
    controls: NDArray[np.int32]
    shortened: NDArray[np.int32]
    ids: NDArray[np.uint8]
    rows: NDArray[np.int64]
    first_pieces: NDArray[np.int32] | None = None
    weights: NDArray[np.float64] | None = None


_KINDS: dict[str, type] = {
    "input_ids": np.int32,
    "learned": np.bool_,
    "lengths": np.int64,
    "examples": np.int64,
    "pieces": np.int32,
    "controls": np.int32,
    "shortened": np.int32,
    "ids": np.uint8,
    "rows": np.int64,
    "weights": np.float64,
}


class Spool:
    """One split's documents. Append them within ``writing()``; afterwards they are memory-mapped.

    Arrays by document: ``lengths``, ``examples`` (index into ``ids`` and ``rows``), ``pieces``, ``controls``,
    ``shortened``; by token: ``input_ids``, ``learned``; by packed row of the dataset: ``ids`` (uint8 [rows, 32]),
    ``rows`` and, if rows have them, ``weights``. Rows without a document are left out.
    """

    input_ids = Mapped[np.int32]()
    learned = Mapped[np.bool_]()
    lengths = Mapped[np.int64]()
    examples = Mapped[np.int64]()
    pieces = Mapped[np.int32]()
    controls = Mapped[np.int32]()
    shortened = Mapped[np.int32]()
    rows = Mapped[np.int64]()
    weights = Mapped[np.float64]()

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._rows = 0

    @contextmanager
    def writing(self) -> Iterator["Spool"]:
        """The spool, empty and open for appending."""
        self._folder.mkdir(parents=True)
        try:
            self._files = {name: (self._folder / name).open("wb") for name in _KINDS}
            yield self
        finally:
            for file in self._files.values():
                file.close()
            self._files = {}

    def append(self, batch: Batch) -> None:
        """Append the documents of ``batch``."""
        documents = len(batch.example)
        assert len(batch.offsets) == documents + 1
        assert len(batch.input_ids) == len(batch.learned) == batch.offsets[-1]
        assert batch.ids.shape == (len(batch.rows), ID_BYTES)
        assert not documents or np.diff(batch.example).min(initial=0) >= 0, "documents are not in the rows' order"
        packed, first, place = np.unique(batch.example, return_index=True, return_inverse=True)
        self._write("input_ids", batch.input_ids)
        self._write("learned", batch.learned)
        self._write("lengths", np.diff(batch.offsets))
        self._write("examples", self._rows + place)
        pieces = np.arange(documents) - first[place]
        if batch.first_pieces is not None:
            pieces += batch.first_pieces[batch.example]
        self._write("pieces", pieces)
        self._write("controls", batch.controls)
        self._write("shortened", batch.shortened)
        self._write("ids", batch.ids[packed])
        self._write("rows", batch.rows[packed])
        if batch.weights is not None:
            self._write("weights", batch.weights[packed])
        self._rows += len(packed)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Start offset of each document's tokens and the end of the last, int64 [documents + 1]; in memory."""
        return offsets_of(self.lengths)

    @cached_property
    def ids(self) -> NDArray[np.uint8]:
        return self._mapped("ids").reshape(-1, ID_BYTES)

    @cached_property
    def first_documents(self) -> NDArray[np.int64]:
        """The first document of each packed row of the dataset, int64 [rows]; in memory."""
        return np.flatnonzero(np.diff(np.asarray(self.examples), prepend=-1))

    def _write(self, name: str, array: NDArray[Any]) -> None:
        self._files[name].write(np.ascontiguousarray(array, _KINDS[name]).data)

    def _mapped(self, name: str) -> NDArray[Any]:
        assert not self._files, "the spool is still being written"
        path, kind = self._folder / name, _KINDS[name]
        if not path.stat().st_size:
            return np.empty(0, kind)
        return np.asarray(np.memmap(path, kind, mode="r"))
