"""Per-sample results: the same bytes for the same results, and one row an item."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ft_assets.workers.evals.samples import read_suite_samples, write_suite_samples
from ft_resources.errors import CorruptArtifact


def test_samples_come_back_as_written_and_equal_samples_are_equal_bytes(tmp_path: Path) -> None:
    one, two = tmp_path / "a" / "one.parquet", tmp_path / "two.parquet"
    for path in (one, two):
        write_suite_samples(path, ["x", "y"], score=[1.0, 0.0], answer=["yes", ""])
    assert one.read_bytes() == two.read_bytes()
    assert read_suite_samples(one) == (("x", "y"), {"score": (1.0, 0.0), "answer": ("yes", "")})


def test_an_item_twice_or_a_column_of_another_length_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="duplicated"):
        write_suite_samples(tmp_path / "x", ["a", "a"], score=[1.0, 0.0])
    with pytest.raises(ValueError, match="1 values for 2 items"):
        write_suite_samples(tmp_path / "x", ["a", "b"], score=[1.0])


def test_a_file_without_item_ids_is_no_samples_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"score": [1.0]}), tmp_path / "x.parquet")
    with pytest.raises(CorruptArtifact, match="item_id"):
        read_suite_samples(tmp_path / "x.parquet")
