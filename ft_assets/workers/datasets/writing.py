"""Writes the curated rows as Parquet and counts their numbers on the way."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.columns import TURN, WEIGHT, with_weight
from ft_assets.workers.datasets.decisions import Decisions
from ft_assets.workers.datasets.labels import LabelCounts
from ft_assets.workers.datasets.quality.mix import sample_mix
from ft_assets.workers.datasets.reporting.report import (
    LISTED_KINDS,
    Labels,
    LengthHistogram,
    Mixed,
    SplitNumbers,
    StepReport,
    Weights,
)
from ft_assets.workers.datasets.split import SIDES, TRAIN, Split

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("messages", pa.list_(TURN)),
        ("chosen", pa.list_(TURN)),
        ("rejected", pa.list_(TURN)),
        ("text", pa.string()),
        ("tools", pa.string()),
        ("group", pa.string()),
        ("kind", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("page", pa.int32()),
    ]
)
"""As in EXAMPLES, with ``id`` (the content key in hex), and ``file`` and 1-based ``row`` of the upload; mixed-in rows
have the other dataset's key as ``file`` and their row number there."""
# Part of the result: other row groups give other bytes.
_ROW_GROUP = 10_000


def columns_of(policy: DatasetPolicy) -> pa.Schema:
    """The columns of a version's files: COLUMNS, and WEIGHT if the policy maps it."""
    return with_weight(COLUMNS, weighed=WEIGHT.name in policy.fields)


@dataclass(frozen=True, kw_only=True, slots=True)
class MixSource:
    """Another dataset version to mix rows from: its key and its ``train.parquet``."""

    dataset: str
    train: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """Numbers of what was written."""

    splits: dict[str, SplitNumbers]
    lengths: LengthHistogram
    labels: Labels | None
    mixed: list[Mixed]
    warnings: list[str]
    largest_group_rows: int


def write_sides(
    decisions: Decisions, sides: np.ndarray, policy: DatasetPolicy, mix: Sequence[MixSource], folder: Path
) -> Written:
    """Write the kept rows of each side, in the upload's order, to ``<side>.parquet``; mixed-in rows come last."""
    counts, columns = _Counts(), columns_of(policy)
    with ExitStack() as stack:
        writers = [stack.enter_context(_Writer(folder / f"{side}.parquet", columns)) for side in SIDES]
        for start, chunk, batch in decisions.rows.batches():
            kept = decisions.kept[start : start + chunk.examples]
            for side, writer in zip(SIDES, writers, strict=True):
                chosen = np.flatnonzero(kept & (sides[start : start + chunk.examples] == SIDES.index(side)))
                if len(chosen):
                    rows = batch.take(pa.array(chosen)) if len(chosen) < batch.num_rows else batch
                    counts.add(side, rows)
                    writer.write(_finished(rows, columns, chunk.file, chunk.row_offset))
        mixed, warnings = _mix_in(decisions, sides, policy, mix, writers[TRAIN], counts)
    largest = max((max(each.values(), default=0) for each in counts.groups.values()), default=0)
    return Written(
        splits={side.value: counts.numbers(side) for side in SIDES},
        lengths=LengthHistogram.from_bit_lengths(counts.lengths),
        labels=counts.labels.numbers(),
        mixed=mixed,
        warnings=warnings,
        largest_group_rows=largest,
    )


def _finished(rows: pa.RecordBatch, schema: pa.Schema, file: str, row_offset: int) -> pa.RecordBatch:
    columns = {name: rows.column(name) for name in schema.names if name in rows.schema.names}
    columns["id"] = hex_of(rows.column("content"))
    columns["row"] = pc.add(rows.column("row"), row_offset)
    columns["file"] = pa.repeat(file, rows.num_rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def hex_of(keys: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """Each 32-byte key as 64 hexadecimal digits."""
    start, count = keys.offset * 32, len(keys)
    data = (keys.buffers()[1] or pa.py_buffer(b""))[start : start + count * 32]
    offsets = np.arange(0, 64 * (count + 1), 64, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(bytes(data).hex().encode()))


def _mix_in(
    decisions: Decisions,
    sides: np.ndarray,
    policy: DatasetPolicy,
    mix: Sequence[MixSource],
    writer: "_Writer",
    counts: "_Counts",
) -> tuple[list[Mixed], list[str]]:
    if not mix:
        return [], []
    rows_in = decisions.count
    # As binary: an Arrow array of strings has room for the hexadecimal ids of 33 million rows.
    own = decisions.rows.content_at(np.arange(len(decisions.rows)))
    tables = [pq.read_table(source.train) for source in mix]
    keys = [
        pa.array([bytes.fromhex(text) for text in table.column("id").to_pylist()], pa.binary(32)) for table in tables
    ]
    others = [pc.invert(pc.is_in(ids, own)) for ids in keys]
    tables = [table.filter(which) for table, which in zip(tables, others, strict=True)]
    keys = [ids.filter(which) for ids, which in zip(keys, others, strict=True)]
    train = int(np.count_nonzero(decisions.kept & (sides == TRAIN)))
    mixture = sample_mix(policy.mix, train, keys)
    for source, table, rows in zip(mix, tables, mixture.rows, strict=True):
        chosen = table.take(pa.array(rows)).combine_chunks()
        chosen = chosen.set_column(COLUMNS.names.index("file"), "file", pa.repeat(source.dataset, len(rows)))
        for batch in chosen.cast(columns_of(policy)).to_batches():
            writer.write(batch)
        counts.add_mixed(chosen)
    added = sum(len(rows) for rows in mixture.rows)
    decisions.steps.append(StepReport(step="mix", rows_in=rows_in, rows_out=rows_in + added))
    return mixture.mixed, mixture.warnings


class _Counts:
    """Numbers of each side, counted while its rows pass."""

    def __init__(self) -> None:
        self.rows: Counter[Split] = Counter()
        self.characters: Counter[Split] = Counter()
        self.kinds: dict[Split, Counter[str]] = {side: Counter() for side in SIDES}
        self.groups: dict[Split, Counter[str]] = {side: Counter() for side in SIDES}
        self.lengths: Counter[int] = Counter()
        self.labels = LabelCounts()
        self.weights: dict[Split, list[float]] = {side: [] for side in SIDES}

    def add(self, side: Split, rows: pa.RecordBatch) -> None:
        characters = rows.column("characters").to_numpy()
        self.rows[side] += rows.num_rows
        self.characters[side] += int(characters.sum(dtype=np.int64))
        # frexp's exponent of an integer is its bit length.
        bits, counts = np.unique(np.frexp(characters)[1], return_counts=True)
        self.lengths.update(dict(zip(bits.tolist(), counts.tolist(), strict=True)))
        self.labels.add(rows)
        self.kinds[side].update(_counted(rows.column("kind")))
        self.groups[side].update(_counted(rows.column("group")))
        self._weigh(side, rows)

    def add_mixed(self, rows: pa.Table) -> None:
        self.rows[Split.TRAIN] += rows.num_rows
        for kind in rows.column("kind").to_pylist():
            if kind:
                self.kinds[Split.TRAIN][kind] += 1
        self._weigh(Split.TRAIN, rows)

    def _weigh(self, side: Split, rows: pa.RecordBatch | pa.Table) -> None:
        if WEIGHT.name in rows.schema.names:
            self.weights[side] += rows.column(WEIGHT.name).to_pylist()

    def numbers(self, side: Split) -> SplitNumbers:
        every = {kind for kinds in self.kinds.values() for kind in kinds}
        total = sum(self.rows.values())
        # A label that differs in nearly every row is row text.
        telling = len(every) <= max(LISTED_KINDS, total // 10)
        kinds = dict(sorted(self.kinds[side].most_common(LISTED_KINDS))) if telling else {}
        return SplitNumbers(
            rows=self.rows[side],
            characters=self.characters[side],
            groups=len(self.groups[side]),
            kinds=kinds,
            weights=Weights.of(self.weights[side]),
        )


def _counted(names: pa.StringArray) -> dict[str, int]:
    counted = names.value_counts()
    pairs = zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True)
    return {name: count for name, count in pairs if name}


class _Writer:
    """Writes batches to one Parquet file in row groups of a fixed size, independent of the batches' sizes.

    A thread compresses a full row group while the next rows are collected; nothing else waits for it.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd", compression_level=1)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._thread = ThreadPoolExecutor(1, "parquet")
        self._under_way: Future[None] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _ROW_GROUP:
            self._flush(self._rows - self._rows % _ROW_GROUP)

    def _flush(self, rows: int) -> None:
        table = pa.Table.from_batches(self._waiting, schema=self._schema)
        if self._under_way:
            self._under_way.result()
        self._under_way = self._thread.submit(self._write, table.slice(0, rows))
        self._waiting = table.slice(rows).to_batches()
        self._rows -= rows

    def _write(self, table: pa.Table) -> None:
        # In one piece: Parquet's pages end where a column's pieces end.
        self._writer.write_table(table.combine_chunks(), row_group_size=_ROW_GROUP)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._thread:
            if self._rows and kind is None:
                self._flush(self._rows)
            if self._under_way:
                self._under_way.result()
        self._writer.close()
