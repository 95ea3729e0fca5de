"""Artifacts as workers leave them, without the work: what a curation found is given."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ft_assets import identity
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.work import WorkRequest

LEAK = "3 rows share most of their 13-word sequences with tests."
_FACTS: dict[str, Any] = {
    "form": "chat",
    "rows": {"train": 120, "validation": 15, "holdout": 15},
    "rows_read": 153,
    "dropped": {"duplicate": 2, "not_json": 1},
    "warnings": ["Most answers are short."],
    "length_histogram": {"edges": [32, 64], "counts": [150]},
}


def leave_dataset(artifacts: Artifacts, key: str, held: list[str], rows: bytes = b"rows") -> Artifact:
    """A curated version with these bytes, held for these reasons."""
    files = {"train.parquet": rows, "report/report.html": b"<p>"}
    return leave(artifacts, identity.dataset_request(artifacts, key), files, _FACTS | {"held": held})


def leave(artifacts: Artifacts, request: WorkRequest, files: Mapping[str, bytes], facts: Mapping[str, Any]) -> Artifact:
    """The artifact that ``request`` names."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, data in files.items():
            path = Path(scratch) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return artifacts.publish(
            request.address,
            Path(scratch),
            writer="w0001",
            identity=request.identity,
            inputs=request.inputs,
            facts=dict(facts),
            actor="tester",
        )
