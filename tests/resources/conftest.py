"""Fixtures of the store, artifacts and execution tests: each contract holds on local disk and on a real S3 server."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ft_resources.artifacts import Artifacts
from ft_resources.execution import Execution
from ft_resources.launchers.local import LocalLauncher
from ft_resources.store import Store
from ft_resources.store_layout import Layout
from ft_resources.store_marker import open_store
from tests.s3_server import s3_server, use_bucket
from tests.warm_workers.fixture import warm as warm


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture(params=["local", "local-from-before", pytest.param("s3", marks=pytest.mark.s3)])
def any_store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param == "local-from-before":
        return Store(str(tmp_path / "store"))
    if request.param == "local":
        return Store(str(tmp_path / "store"), layout=Layout.BELOW)
    endpoint = request.getfixturevalue("s3_endpoint")
    return Store(use_bucket(monkeypatch, endpoint, f"test-{uuid.uuid4().hex[:8]}"), layout=Layout.BELOW)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


@pytest.fixture
def artifacts(any_store: Store) -> Artifacts:
    return Artifacts(any_store)


@pytest.fixture
def execution(store: Store, warm: None) -> Execution:
    """On this machine, with the fake worker; it delays no attempt."""
    launcher = LocalLauncher(module="tests.fake_worker")
    return Execution(store=store, launcher=launcher, poll_s=0.05, sleep=lambda seconds: time.sleep(min(seconds, 0.05)))
