"""Packs of made-up documents, whose first part is masked, and the same documents as plain rows."""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.format import TRAIN, VALIDATION, Layout, Pack, PackWriter, Spool
from ft_assets.workers.packs.format.layout import ID_BYTES
from ft_assets.workers.packs.format.spool import Batch
from ft_assets.workers.packs.packing import pack


def _batch(input_ids: NDArray[np.int32], learned: NDArray[np.bool_], offsets: NDArray[np.int64]) -> Batch:
    """Documents as ``Spool`` takes them, one a row."""
    rows = np.arange(len(offsets) - 1)
    digests = [hashlib.sha256(b"%d" % row).digest() for row in rows.tolist()]
    nothing = np.zeros(len(rows), np.int32)
    return Batch(
        input_ids=input_ids,
        learned=learned,
        offsets=offsets,
        example=rows,
        controls=nothing,
        shortened=nothing,
        ids=np.frombuffer(b"".join(digests), np.uint8).reshape(-1, ID_BYTES),
        rows=rows + 1,
    )


def made_documents(lengths: NDArray[np.int64], vocabulary: int, *, masked: float = 0.5, seed: int = 0) -> Batch:
    """Random tokens; the first ``masked`` of each document are not learned."""
    offsets = offsets_of(np.asarray(lengths, np.int64))
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    prompts = (lengths * masked).astype(np.int64)
    ids = np.random.RandomState(seed).randint(3, vocabulary, int(offsets[-1])).astype(np.int32)
    return _batch(ids, within >= np.repeat(prompts, lengths), offsets)


def write_packs(documents: Batch, folder: Path, max_length: int, *, seed: int = 0) -> Pack:
    """The pack of ``documents`` in windows of ``max_length``, made as ``token_pack`` makes it, beside an empty
    validation split."""
    folder.mkdir(parents=True)
    nothing = _batch(documents.input_ids[:0], documents.learned[:0], np.zeros(1, np.int64))
    for split, each in ((TRAIN, documents), (VALIDATION, nothing)):
        with Spool(folder.parent / f"{folder.name}-spool-{split}").writing() as spool:
            spool.append(each)
        PackWriter(folder, split, "chat", max_length).write(spool, _layout(np.diff(each.offsets), max_length, seed))
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
