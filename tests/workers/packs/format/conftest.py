"""A pack in a bucket of a real S3 server, and a machine's cache."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ft_resources.artifacts import Artifact
from ft_resources.file_cache import FileCache
from tests.counting_store import CountingStore
from tests.s3_server import s3_server
from tests.workers.packs.format.bucket import publish


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> CountingStore:
    return CountingStore.in_new_bucket(monkeypatch, endpoint)


@pytest.fixture
def artifact(store: CountingStore, tmp_path: Path) -> Artifact:
    return publish(store, tmp_path)


@pytest.fixture
def cache(tmp_path: Path) -> FileCache:
    return FileCache(tmp_path / "cache")
