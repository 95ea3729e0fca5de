"""Per-sample results as Parquet: every number of a report can be recomputed from them, and pairs are by item id."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ft_resources.errors import CorruptArtifact

ITEM_ID = "item_id"
# A column of one model's scores, as the baseline writes it.
SCORE = "score"


def write_suite_samples(path: Path, item_ids: Sequence[str], **columns: Sequence[Any]) -> None:
    """Write one row per item: ``item_id`` and the given columns, each as long as ``item_ids``.

    Equal arguments give equal bytes. Raises ValueError for repeated ids or columns of another length.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if len(set(item_ids)) != len(item_ids):
        raise ValueError("an item id is duplicated")
    for name, values in columns.items():
        if len(values) != len(item_ids):
            raise ValueError(f"column {name!r} has {len(values)} values for {len(item_ids)} items")
    table = pa.table({ITEM_ID: pa.array(item_ids, pa.string()), **{k: list(v) for k, v in columns.items()}})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", version="2.6")


def read_suite_samples(path: Path) -> tuple[tuple[str, ...], dict[str, tuple[Any, ...]]]:
    """Item ids, and the other columns by name. Raises CorruptArtifact for a file without ids."""
    columns = parse_samples(path.read_bytes(), path.name)
    return columns.pop(ITEM_ID), columns


def parse_samples(data: bytes, where: str) -> dict[str, tuple[Any, ...]]:
    """All columns of a file's bytes by name, including ``item_id``. Raises CorruptArtifact for anything else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    remedy = "Recreate the report."
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise CorruptArtifact("the samples cannot be read as Parquet", where=where, remedy=remedy) from error
    if ITEM_ID not in table.column_names:
        raise CorruptArtifact(f"the samples have no column {ITEM_ID!r}", where=where, remedy=remedy)
    return {name: tuple(table.column(name).to_pylist()) for name in table.column_names}
