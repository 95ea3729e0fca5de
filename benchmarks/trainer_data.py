"""Packs of made-up documents, whose first part is masked, and the same documents as plain rows."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ft_assets.packs.format import TRAIN, VALIDATION, Layout, Pack, PackWriter, Spool
from ft_assets.packs.format.layout import ID_BYTES, offsets_of
from ft_assets.packs.packing import pack


@dataclass(frozen=True, kw_only=True, slots=True)
class Documents:
    """Documents as ``Spool`` takes them: tokens and flags one document behind the other, one document a row."""

    input_ids: NDArray[np.int32]
    learned: NDArray[np.bool_]
    offsets: NDArray[np.int64]

    @property
    def example(self) -> NDArray[np.int64]:
        return np.arange(len(self.offsets) - 1)

    @property
    def controls(self) -> NDArray[np.int32]:
        return np.zeros(len(self.offsets) - 1, np.int32)

    @property
    def shortened(self) -> NDArray[np.int32]:
        return np.zeros(len(self.offsets) - 1, np.int32)

    @property
    def ids(self) -> NDArray[np.uint8]:
        digests = [hashlib.sha256(b"%d" % row).digest() for row in range(len(self.offsets) - 1)]
        return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, ID_BYTES)

    @property
    def rows(self) -> NDArray[np.int64]:
        return self.example + 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)


def made_documents(lengths: NDArray[np.int64], vocabulary: int, *, masked: float = 0.5, seed: int = 0) -> Documents:
    """Random tokens; the first ``masked`` of each document are not learned."""
    offsets = offsets_of(np.asarray(lengths, np.int64))
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    prompts = (lengths * masked).astype(np.int64)
    ids = np.random.RandomState(seed).randint(3, vocabulary, int(offsets[-1])).astype(np.int32)
    return Documents(input_ids=ids, learned=within >= np.repeat(prompts, lengths), offsets=offsets)


def write_packs(documents: Documents, folder: Path, max_length: int, *, seed: int = 0) -> Pack:
    """The pack of ``documents`` in windows of ``max_length``, made as ``token_pack`` makes it, beside an empty
    validation split."""
    folder.mkdir(parents=True)
    nothing = Documents(input_ids=documents.input_ids[:0], learned=documents.learned[:0], offsets=np.zeros(1, np.int64))
    for split, each in ((TRAIN, documents), (VALIDATION, nothing)):
        with Spool(folder.parent / f"{folder.name}-spool-{split}").writing() as spool:
            spool.append(each)
        PackWriter(folder, split, "chat", max_length).write(spool, _layout(each.lengths, max_length, seed))
    return Pack.open(folder, TRAIN)


def _layout(lengths: NDArray[np.int64], max_length: int, seed: int) -> Layout:
    if len(lengths):
        return pack(lengths, max_length=max_length, seed=seed)
    return Layout(order=np.empty(0, np.int64), window_offsets=np.zeros(1, np.int64))


def plain_rows(pack_: Pack) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """All documents of a pack of equally long ones as [documents, tokens]: their tokens, and which are learned."""
    read = pack_.read(range(len(pack_)))
    length = int(read.document_lengths[0])
    assert (read.document_lengths == length).all(), "documents differ in length, so rows would need padding"
    return read.input_ids.reshape(-1, length).astype(np.int64), read.learned.reshape(-1, length)
