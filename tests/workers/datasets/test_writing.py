"""The Parquet files: their bytes follow from their rows, however these were handed over."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ft_assets.workers.datasets.writing import _ROW_GROUP, COLUMNS, _Writer, hex_of

ROWS = _ROW_GROUP + 700


@pytest.fixture(scope="module")
def rows() -> pa.RecordBatch:
    """Long enough that a column of a row group has several pages."""
    found: list[dict[str, Any]] = []
    for number in range(ROWS):
        text = random.Random(number).randbytes(150).hex()
        turn = {"role": "user", "content": text, "tool_calls": "", "tool_call_id": "", "name": ""}
        found.append(dict.fromkeys(COLUMNS.names, "") | {"messages": [turn], "chosen": [], "rejected": []})
        found[-1] |= {"id": text[:64], "text": text, "row": number, "page": 0}
    return pa.RecordBatch.from_pylist(found, schema=COLUMNS)


def written(rows: pa.RecordBatch, cuts: list[int], path: Path) -> bytes:
    with _Writer(path, COLUMNS) as writer:
        for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            writer.write(rows.slice(start, end - start))
    return path.read_bytes()


@pytest.mark.parametrize("cuts", [list(range(777, ROWS, 777)), [_ROW_GROUP], [1, 2, 9000], [10, 10, ROWS]])
def test_the_bytes_do_not_depend_on_the_batches(rows: pa.RecordBatch, cuts: list[int], tmp_path: Path) -> None:
    one = written(rows, [], tmp_path / "one.parquet")
    assert written(rows, cuts, tmp_path / "other.parquet") == one
    file = pq.ParquetFile(tmp_path / "other.parquet")
    assert [file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)] == [_ROW_GROUP, 700]
    assert file.read().equals(pa.Table.from_batches([rows]))


def test_a_side_without_rows_is_a_file_with_the_columns(tmp_path: Path) -> None:
    with _Writer(tmp_path / "none.parquet", COLUMNS):
        pass
    assert pq.read_table(tmp_path / "none.parquet").schema.equals(COLUMNS)


def test_keys_are_written_in_hexadecimal_also_those_of_a_slice() -> None:
    keys = [random.Random(number).randbytes(32) for number in range(9)]
    array = pa.array(keys, pa.binary(32))
    assert hex_of(array).to_pylist() == [key.hex() for key in keys]
    assert hex_of(array[4:7]).to_pylist() == [key.hex() for key in keys[4:7]]
    assert hex_of(array[:0]).to_pylist() == []
