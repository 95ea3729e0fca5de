"""Convert a split's rows to documents in a spool: batch by batch, in processes if that pays."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ft_assets.settings.catalogue.forms import FORMS
from ft_assets.workers.datasets.columns import TURN_COLUMNS
from ft_assets.workers.datasets.engine.local import Mapper
from ft_assets.workers.packs.documents.examples import read_batches
from ft_assets.workers.packs.documents.fitting import too_long
from ft_assets.workers.packs.documents.prepare import Prepared, Preparer, PrepareSettings
from ft_assets.workers.packs.format import Spool

PrepareTask = tuple[PrepareSettings, pa.RecordBatch]
_TEXTS = (*TURN_COLUMNS, "text")
# Below it, starting processes costs more than it saves.
_SMALL_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizedSplit:
    """The documents of a split; int64 [dropped, 2], rows left out: row of the upload, tokens; int64 [equal], rows left
    out because their two answers are the same tokens; number of rows in which the template removed white space around a
    message; int64 [spelled], rows that spell a control token; number of turns whose thoughts the template drops; and
    number of turns that stand behind other tokens than their prompt."""

    spool: Spool
    dropped: NDArray[np.int64]
    equal: NDArray[np.int64]
    trimmed: int
    spelled: NDArray[np.int64]
    bare: int
    unasked: int

    @property
    def longest(self) -> int:
        """Tokens of the longest original document, including those left out or shortened; 0 if there is none."""
        kept = (self.spool.lengths + self.spool.shortened).max(initial=0)
        return int(max(kept, self.dropped[:, 1].max(initial=0)))


def tokenize_split(
    path: Path, settings: PrepareSettings, mapper: Mapper, folder: Path, progress: Callable[[int, int], None]
) -> TokenizedSplit:
    """The rows of the Parquet file ``path`` as documents, spooled below ``folder``; ``progress(done, total)`` in rows.

    The result does not depend on the mapper and its number of processes: it keeps the order, and rows are independent.
    Raises BadData, naming the row, for an unusable row, and for all that are too long if the policy says so;
    SkeletonDiffers as ``Preparer.prepare`` does.
    """
    total, done, trimmed, bare, unasked = pq.read_metadata(path).num_rows, 0, 0, 0, 0
    dropped, spelled, equal = [np.empty((0, 2), np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    files: list[str] = []
    with Spool(folder).writing() as spool:
        batches = read_batches(path, FORMS[settings.form])
        for prepared in mapper(_prepare, ((settings, batch) for batch in batches)):
            spool.append(prepared)
            dropped.append(prepared.dropped)
            files += prepared.dropped_files
            spelled.append(prepared.spelled)
            equal.append(prepared.equal)
            trimmed += prepared.trimmed
            bare += prepared.bare
            unasked += prepared.unasked
            done += len(prepared.rows) + len(prepared.equal)
            progress(done, total)
    rows = np.concatenate(dropped)
    if len(rows) and settings.overlong == "reject":
        raise too_long(rows, files, settings.max_length, settings.context, plain=FORMS[settings.form].plain)
    return TokenizedSplit(
        spool=spool,
        dropped=rows,
        equal=np.concatenate(equal),
        trimmed=trimmed,
        spelled=np.concatenate(spelled),
        bare=bare,
        unasked=unasked,
    )


def is_large(paths: Iterable[Path]) -> bool:
    """Whether this many bytes of rows (uncompressed) take longer to tokenize than processes take to start."""
    return sum(_uncompressed(path) for path in paths) >= _SMALL_BYTES


def texts_of(paths: Iterable[Path]) -> Iterator[str]:
    """The texts in messages and text columns, row by row."""
    for path in paths:
        for batch in read_batches(path):
            for name in _TEXTS:
                if name in batch.schema.names:
                    column = batch.column(name)
                    texts = column if pa.types.is_string(column.type) else column.flatten().field("content")
                    yield from texts.drop_null().to_pylist()


def _uncompressed(path: Path) -> int:
    metadata = pq.read_metadata(path)
    return sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))


def _prepare(task: PrepareTask) -> Prepared:
    settings, batch = task
    return _preparer(settings).prepare(batch)


@lru_cache(maxsize=1)
def _preparer(settings: PrepareSettings) -> Preparer:
    """Loaded once per process: reading a tokenizer takes longer than a batch."""
    return Preparer(settings)
