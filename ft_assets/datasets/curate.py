"""The work behind ``dataset``: an upload in, three Parquet files and the report out."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.datasets.page import render_page
from ft_assets.datasets.pipeline import curate_file
from ft_assets.datasets.policy import policy_of
from ft_assets.datasets.report import Upload
from ft_assets.datasets.rows import Example
from ft_assets.datasets.split import Split
from ft_assets.datasets.tally import Tally
from ft_resources.canonical import canonical_json, digest
from ft_resources.worker_context import WorkContext, WorkResult

UPLOAD_FOLDER = "upload/"
COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("group", pa.string()),
        ("kind", pa.string()),
        ("row", pa.int64()),
    ]
)
"""``id`` is the digest of the messages; ``group`` and ``kind`` are "" where none; ``row`` is 1-based in the upload."""
# Part of the result: other row groups are other bytes.
_ROW_GROUP = 10_000


def curate(context: WorkContext) -> WorkResult:
    """Clean and split the input ``raw`` by the parameter ``policy``.

    Leaves ``train.parquet``, ``validation.parquet`` and ``holdout.parquet`` (see COLUMNS; rows in the upload's
    order; equal input, equal bytes) and ``report/report.json`` and ``.html``. Facts: ``rows`` by split, ``dropped``
    by reason, ``length_histogram`` (characters), ``rows_read``, ``warnings``. Raises BadData (file, row, field).
    """
    raw = context.input("raw")
    policy = policy_of(context.params["policy"])
    (file,) = (name for name in raw.manifest.files if name.startswith(UPLOAD_FOLDER))
    entry = raw.manifest.files[file]
    upload = Upload(name=file.removeprefix(UPLOAD_FOLDER), size=entry.size, sha256=entry.sha256)
    tally = Tally()
    with ExitStack() as stack:
        writers = {split: stack.enter_context(_SplitWriter(context.output / f"{split}.parquet")) for split in Split}

        def keep(split: Split, example: Example) -> None:
            writers[split].write(example)
            if tally.rows % 1000 == 0:
                context.progress("curating", done=tally.rows)

        context.progress("reading")
        report = curate_file(raw.path(file, context.scratch), upload, policy, keep, tally)
    folder = context.output / "report"
    folder.mkdir()
    (folder / "report.json").write_bytes(canonical_json(report.model_dump(mode="json")))
    (folder / "report.html").write_text(render_page(report, tally.samples), encoding="utf-8")
    return WorkResult(
        folder=context.output,
        facts={
            "rows": {name: numbers.rows for name, numbers in report.splits.items()},
            "dropped": report.dropped,
            "length_histogram": report.length_histogram.model_dump(mode="json"),
            "rows_read": report.rows_read,
            "warnings": report.warnings,
        },
    )


class _SplitWriter:
    """Writes examples to one Parquet file in row groups of a fixed size, so that memory stays bounded."""

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, COLUMNS, compression="zstd")
        self._rows: list[dict[str, Any]] = []

    def write(self, example: Example) -> None:
        self._rows.append(
            {
                "id": digest(list(example.messages)),
                "messages": example.messages,
                "group": example.group,
                "kind": example.kind,
                "row": example.row,
            }
        )
        if len(self._rows) == _ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=COLUMNS), row_group_size=_ROW_GROUP)
        self._rows.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._rows:
            self._flush()
        self._writer.close()
