"""Artifacts as workers leave them, without the work: what a curation found is given."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.control import identity
from ft_assets.records.names import HELD_OUT
from ft_resources.artifacts import Artifact, Artifacts
from tests.made import leave

LEAK = "3 rows share most of their 13-word sequences with tests."
_FACTS: dict[str, Any] = {
    "form": "chat",
    "rows": {"train": 120, "validation": 15, "holdout": 15},
    "rows_read": 153,
    "dropped": {"duplicate": 2, "not_json": 1},
    "warnings": ["Most answers are short."],
    "length_histogram": {"edges": [32, 64], "counts": [150]},
}


def leave_dataset(artifacts: Artifacts, key: str, held: list[str], rows: bytes = b"") -> Artifact:
    """A curated version with these bytes, else with a table without rows, held for these reasons; those before it have
    held out nothing."""
    HELD_OUT.create(artifacts.store, key, {"address": "", "digest": ""})
    empty = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([], pa.string())}), empty)
    files = {"train.parquet": rows or empty.getvalue(), "report/report.html": b"<p>"}
    return leave(artifacts, identity.dataset_request(artifacts, key), files, _FACTS | {"held": held})
