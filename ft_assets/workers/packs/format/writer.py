"""Write a pack: documents move from the spool into shards, in window order and with bounded memory."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ft_assets.settings.catalogue.forms import FORMS, FormName
from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.format.layout import (
    ARRAYS,
    EXAMPLE_IDS,
    EXAMPLE_ROWS,
    EXAMPLE_WEIGHTS,
    INDEX,
    SHARD_TOKENS,
    Index,
    Layout,
    ShardSize,
    array_name,
)
from ft_assets.workers.packs.format.spool import Spool
from ft_resources.canonical import canonical_json

_CHUNK_TOKENS = 2**20
"""Tokens moved at a time; a gather needs about 20 bytes for each."""


class PackWriter:
    """Writes one split of a pack below ``folder``; its ``index.json`` is written last."""

    def __init__(
        self, folder: Path, split: str, form: FormName, max_length: int, *, shard_tokens: int = SHARD_TOKENS
    ) -> None:
        self.folder, self.split, self.form, self.max_length = folder, split, form, max_length
        self.shard_tokens = shard_tokens

    def write(self, spool: Spool, layout: Layout) -> Index:
        """Write all documents of ``spool`` in the layout's windows. Raises ValueError for a layout of other documents,
        or with a window over ``max_length``."""
        lengths = self._checked_lengths(spool, layout)
        document_offsets = offsets_of(lengths)
        window_tokens = document_offsets[layout.window_offsets]
        (self.folder / self.split).mkdir(parents=True, exist_ok=True)
        learned, sizes = 0, []
        for shard, (first, last) in enumerate(pairwise(_shard_edges(window_tokens, self.shard_tokens))):
            start, end = int(layout.window_offsets[first]), int(layout.window_offsets[last])
            order = layout.order[start:end]
            learned += self._write_tokens(shard, spool, order)
            self._save(shard, "document_offsets", document_offsets[start : end + 1] - document_offsets[start])
            self._save(shard, "window_offsets", layout.window_offsets[first : last + 1] - start)
            self._save(shard, "examples", spool.examples[order])
            self._save(shard, "pieces", spool.pieces[order])
            tokens = int(window_tokens[last] - window_tokens[first])
            sizes.append(ShardSize(windows=int(last - first), documents=end - start, tokens=tokens))
        np.save(self.folder / self.split / EXAMPLE_IDS, spool.ids, allow_pickle=False)
        np.save(self.folder / self.split / EXAMPLE_ROWS, spool.rows, allow_pickle=False)
        if weighed := len(spool.weights) > 0:
            np.save(self.folder / self.split / EXAMPLE_WEIGHTS, spool.weights, allow_pickle=False)
        index = Index(
            form=self.form,
            max_length=self.max_length,
            examples=len(spool.rows),
            documents=len(lengths),
            windows=len(layout.window_offsets) - 1,
            tokens=int(document_offsets[-1]),
            learned_tokens=learned,
            weighed=weighed,
            shards=sizes,
        )
        (self.folder / self.split / INDEX).write_bytes(canonical_json(index.model_dump(mode="json")))
        return index

    def _checked_lengths(self, spool: Spool, layout: Layout) -> NDArray[np.int64]:
        """Lengths of the documents in the layout's order, int64 [documents]."""
        documents = len(spool.lengths)
        edges = layout.window_offsets
        if len(layout.order) != documents or (np.bincount(layout.order, minlength=documents) != 1).any():
            raise ValueError(f"the layout does not hold each of {documents} documents once")
        if edges[0] != 0 or edges[-1] != documents or (np.diff(edges) < 1).any():
            raise ValueError("the layout's windows do not cover its documents")
        lengths = spool.lengths[layout.order]
        # Forms with own windows read each document separately.
        sizes = lengths if FORMS[self.form].own_windows else np.diff(offsets_of(lengths)[edges])
        if sizes.max(initial=0) > self.max_length:
            raise ValueError(f"a window has {sizes.max()} tokens, {self.max_length} are allowed")
        return lengths

    def _write_tokens(self, shard: int, spool: Spool, order: NDArray[np.int64]) -> int:
        """Write the tokens of the documents ``order`` and their flags; returns the number of flagged tokens."""
        learned = 0
        lengths = spool.lengths[order]
        tokens = int(lengths.sum())
        ids_path, learned_path = self._path(shard, "input_ids"), self._path(shard, "learned")
        with ids_path.open("wb") as ids_file, learned_path.open("wb") as learned_file:
            _write_header(ids_file, ARRAYS["input_ids"], tokens)
            _write_header(learned_file, ARRAYS["learned"], tokens)
            for source in _sources(spool.offsets[order], lengths):
                ids_file.write(spool.input_ids[source].data)
                flags = spool.learned[source]
                learned_file.write(flags.data)
                learned += int(np.count_nonzero(flags))
        return learned

    def _save(self, shard: int, name: str, array: NDArray[Any]) -> None:
        np.save(self._path(shard, name), array.astype(ARRAYS[name], copy=False), allow_pickle=False)

    def _path(self, shard: int, name: str) -> Path:
        return self.folder / array_name(self.split, shard, name)


def _shard_edges(window_tokens: NDArray[np.int64], limit: int) -> list[int]:
    """First window of each shard, then the number of windows; each shard has as many as fit ``limit``, at least one.

    ``window_tokens`` int64 [windows + 1] is the number of tokens before each window.
    """
    edges, windows = [0], len(window_tokens) - 1
    while edges[-1] < windows:
        room = window_tokens[edges[-1]] + limit
        edges.append(max(edges[-1] + 1, int(np.searchsorted(window_tokens, room, side="right")) - 1))
    return edges


def _sources(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Indices in the spool of the tokens of documents at ``starts``, in pieces of about ``_CHUNK_TOKENS``."""
    offsets = offsets_of(lengths)
    first = 0
    while first < len(lengths):
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + _CHUNK_TOKENS, side="right")) - 1)
        inside = lengths[first:last]
        shift = starts[first:last] - (offsets[first:last] - offsets[first])
        yield np.repeat(shift, inside) + np.arange(offsets[last] - offsets[first])
        first = last


def _write_header(file: Any, kind: type, count: int) -> None:
    """The header of a one-dimensional ``.npy`` file, as ``np.save`` writes it."""
    described = npy.dtype_to_descr(np.dtype(kind))
    npy.write_array_header_1_0(file, {"descr": described, "fortran_order": False, "shape": (count,)})
