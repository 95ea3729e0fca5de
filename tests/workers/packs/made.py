"""Documents for tests of packs, without text or tokenizers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.format import Spool
from ft_assets.workers.packs.format.spool import Batch
from ft_resources.canonical import digest


def made_batch(
    lengths: Sequence[int] | np.ndarray,
    *,
    input_ids: np.ndarray | None = None,
    learned: np.ndarray | None = None,
    example: Sequence[int] | None = None,
    ids: Sequence[str] | None = None,
    rows: Sequence[int] | None = None,
    first_pieces: np.ndarray | None = None,
    weights: Sequence[float] | None = None,
) -> Batch:
    """Documents of these lengths, one a row unless ``example`` says otherwise; tokens count up through all of them."""
    offsets = offsets_of(np.asarray(lengths, np.int64))
    number = np.arange(len(lengths)) if example is None else np.asarray(example, np.int64)
    if rows is None:
        rows = range(1, 1 + (int(number.max(initial=-1)) + 1 if ids is None else len(ids)))
    if ids is None:
        ids = [digest(row) for row in rows]
    tokens = np.arange(offsets[-1], dtype=np.int32) if input_ids is None else input_ids
    return Batch(
        input_ids=tokens,
        learned=tokens % 2 == 0 if learned is None else learned,
        offsets=offsets,
        example=number,
        controls=np.zeros(len(lengths), np.int32),
        shortened=np.zeros(len(lengths), np.int32),
        ids=np.frombuffer(bytes.fromhex("".join(ids)), np.uint8).reshape(-1, 32),
        rows=np.asarray(rows, np.int64),
        first_pieces=first_pieces,
        weights=None if weights is None else np.asarray(weights, np.float64),
    )


def made_spool(folder: Path, lengths: Sequence[int] | np.ndarray, **arrays: object) -> Spool:
    """A spool that holds ``made_batch`` of the same arguments."""
    with Spool(folder).writing() as spool:
        spool.append(made_batch(lengths, **arrays))  # type: ignore[arg-type]
    return spool
