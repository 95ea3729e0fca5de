"""Fixtures of the dataset tests: a store, uploads made of rows, and curation without Dagster."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ft_assets.datasets.curate import curate
from ft_assets.datasets.policy import DatasetPolicy
from ft_assets.datasets.versions import DatasetVersion, add_dataset_version
from ft_assets.identity import dataset_request
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.store import Store
from ft_resources.work import WorkSpec
from ft_resources.worker_context import WorkContext

Row = dict[str, Any]
WriteRows = Callable[..., Path]


def pair(number: int, **fields: Any) -> Row:
    """A good prompt/completion row, different for each number."""
    return {"prompt": f"What is {number}?", "completion": f"It is the number {number}.", **fields}


def chat(*roles: str) -> Row:
    """A messages row with one turn for each role."""
    return {"messages": [{"role": role, "content": f"turn {index}"} for index, role in enumerate(roles)]}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def artifacts(store: Store) -> Artifacts:
    return Artifacts(store)


@pytest.fixture
def write(tmp_path: Path) -> WriteRows:
    """Write rows (objects, or raw bytes for what JSON cannot say) as lines of an upload."""

    def write_rows(rows: list[Row | bytes], name: str = "data.jsonl") -> Path:
        path = tmp_path / name
        lines = [row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode() for row in rows]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    return write_rows


@pytest.fixture
def add(store: Store) -> Callable[..., DatasetVersion]:
    def add_file(file: Path, policy: DatasetPolicy | None = None, name: str = "facts") -> DatasetVersion:
        return add_dataset_version(
            store, file, tenant="acme", name=name, policy=policy or DatasetPolicy(), actor="tester"
        )

    return add_file


def run_curation(artifacts: Artifacts, key: str, scratch: Path) -> Artifact:
    """What a worker does for ``dataset``: curate in a scratch folder of its own and publish."""
    request = dataset_request(artifacts, key)
    spec = WorkSpec(
        asset=request.asset,
        store_url=artifacts.store.url,
        address=request.address,
        attempt=1,
        identity=request.identity,
        inputs=request.inputs,
        params=request.params,
        runtime=request.runtime,
        label=request.label,
        actor="tester",
    )
    context = WorkContext(spec, artifacts.store, Path(tempfile.mkdtemp(dir=scratch)))
    result = curate(context)
    return artifacts.publish(
        request.address,
        result.folder,
        writer="w0001",
        identity=request.identity,
        inputs=request.inputs,
        facts=result.facts,
        actor="tester",
    )
