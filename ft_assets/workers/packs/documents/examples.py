"""The rows of a dataset split, as record batches."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.settings.catalogue.form import Form
from ft_assets.workers.datasets.columns import TURN_COLUMNS, WEIGHT
from ft_resources.lazy import load

_BATCH = 512
FIRST_PIECE = "first_piece"
"""A column that ``Form.completed_by`` may add, int32: the number of a row's first document, 0 without it."""
_COLUMNS = ("id", "file", "row", *TURN_COLUMNS, "text", "tools", WEIGHT.name)


def read_batches(path: Path, form: Form | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, in order: ``id``, ``file``, ``row`` and, if the file has them, ``messages``,
    ``chosen``, ``rejected``, ``text``, ``tools`` and ``weight``.

    With a ``form`` that completes its examples (``Form.completed_by``) they are completed, batch by batch.
    """
    complete = load(form.completed_by) if form and form.completed_by else None
    with pq.ParquetFile(path) as file:
        columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
        batches = file.iter_batches(batch_size=_BATCH, columns=columns)
        yield from map(complete, batches) if complete else batches
