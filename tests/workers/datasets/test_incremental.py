"""Versions that differ in few rows: most chunks come from the cache, and nothing but time depends on it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ft_assets.settings.dataset.policy import DatasetPolicy, PersonalDataSettings, QualitySettings, SplitSettings
from ft_assets.workers.datasets import pipeline
from ft_assets.workers.datasets.engine import cache as cache_module
from ft_assets.workers.datasets.engine.cache import ChunkCache
from ft_assets.workers.datasets.engine.chunks import ChunkResult, ChunkTask, run_chunk
from ft_resources.store import Store
from tests.workers.datasets.conftest import Curated, CurateFiles, WriteRows, prose, told

pytestmark = pytest.mark.subprocess

ROWS = 240
CHUNK = 4 << 10
Build = Callable[..., tuple[Curated, list[bool]]]


@pytest.fixture
def cache(store: Store) -> ChunkCache:
    return ChunkCache(store_url=store.url, layout=store.layout, tenant="acme")


@pytest.fixture
def build(curated: CurateFiles) -> Build:
    """Curate in small chunks; also gives for each chunk whether it came from the cache."""

    def run(path: Path, policy: DatasetPolicy | None = None, cache: ChunkCache | None = None) -> Any:
        cached: list[bool] = []

        def run_chunks(tasks: Iterator[ChunkTask]) -> Iterator[ChunkResult]:
            for result in map(run_chunk, tasks):
                cached.append(result.cached)
                yield result

        return curated(path, policy, cache=cache, chunk_bytes=CHUNK, run_chunks=run_chunks), cached

    return run


def first_version() -> list[dict[str, object]]:
    """Rows with some duplicates, near-duplicates and personal data among them."""
    rows: list[dict[str, object]] = [told(number) for number in range(ROWS)]
    rows[100] = rows[50]
    rows[200] = {**rows[60], "completion": str(rows[60]["completion"]) + " And so on."}
    rows[230] = told(230, kind="contact") | {"completion": f"Write to ann@example.com. {prose(230)}"}
    return rows


def second_version() -> list[dict[str, object]]:
    """Two rows in a hundred more: a third in the middle, the others behind."""
    rows = first_version()
    return [*rows[:160], *(told(9000 + n) for n in range(2)), *rows[160:], *(told(9100 + n) for n in range(3))]


def test_a_version_with_a_percent_more_rows_takes_most_chunks_from_the_cache_and_is_what_it_would_be_without(
    write: WriteRows, build: Build, cache: ChunkCache
) -> None:
    _, cached = build(write(first_version(), "v1.jsonl"), cache=cache)
    assert len(cached) > 20
    assert not any(cached)
    file = write(second_version())
    quick, cached = build(file, cache=cache)
    assert cached.count(False) <= 5
    plain, _ = build(file)
    assert quick.bytes == plain.bytes
    assert quick.report == plain.report
    assert quick.exhibits == plain.exhibits


@pytest.mark.parametrize(
    ("change", "reused"),
    [
        ({"split": SplitSettings(seed=7)}, True),
        ({"on_bad_row": "drop"}, True),
        ({"split": SplitSettings(group_by="kind")}, False),
        ({"personal_data": PersonalDataSettings(action="scrub")}, False),
        ({"quality": QualitySettings(max_characters=200)}, False),
    ],
    ids=["seed", "bad rows", "groups", "personal data", "quality"],
)
def test_settings_that_change_a_chunk_do_not_use_chunks_made_with_others(
    write: WriteRows, build: Build, cache: ChunkCache, change: dict[str, Any], reused: bool
) -> None:
    rows = [{**row, "kind": str(number % 50)} for number, row in enumerate(first_version()[:150])]
    file = write(rows)
    build(file, cache=cache)
    policy = DatasetPolicy(**change)
    made, cached = build(file, policy, cache=cache)
    assert set(cached) == {reused}
    assert made.bytes == build(file, policy)[0].bytes


def test_a_damaged_or_missing_cache_object_is_made_again(
    write: WriteRows, build: Build, cache: ChunkCache, store: Store
) -> None:
    file = write(first_version())
    first, _ = build(file, cache=cache)
    assert store.root is not None
    objects = sorted(path for path in (store.root / "tenants/acme/cache").rglob("*") if path.is_file())
    objects[0].unlink()
    for path, data in ((objects[1], b""), (objects[2], b"x" * 100), (objects[3], objects[3].read_bytes()[:-7])):
        path.write_bytes(data)
    flipped = bytearray(objects[4].read_bytes())
    flipped[len(flipped) // 2] ^= 1
    objects[4].write_bytes(flipped)
    again, cached = build(file, cache=cache)
    assert cached.count(False) == 5
    assert again.bytes == first.bytes
    assert all(build(file, cache=cache)[1])


class Elsewhere:
    """A store that is on no local disk."""

    root: Path | None = None

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def get(self, path: str) -> bytes:
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self.objects[path]

    def put(self, path: str, data: bytes) -> None:
        self.objects[path] = data

    def local_path(self, path: str) -> Path | None:
        return None


def test_a_store_that_is_elsewhere_gets_packed_chunks_and_gives_them_back(
    write: WriteRows, build: Build, cache: ChunkCache, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(first_version())
    first, _ = build(file, cache=cache)
    here = sum(entry.size for entry in store.entries("acme/cache"))
    far = Elsewhere()
    monkeypatch.setattr(cache_module, "Store", lambda url, layout: far)
    assert not any(build(file, cache=cache)[1])
    assert sum(len(data) for data in far.objects.values()) < here
    again, cached = build(file, cache=cache)
    assert all(cached)
    assert again.bytes == first.bytes


@pytest.mark.parametrize("chunk_bytes", [2 << 10, None])
def test_chunks_of_another_size_give_the_same_bytes(
    write: WriteRows, curated: CurateFiles, chunk_bytes: int | None
) -> None:
    file = write(first_version())
    one, other = curated(file, chunk_bytes=CHUNK), curated(file, chunk_bytes=chunk_bytes)
    assert one.bytes == other.bytes
    assert one.report == other.report


def test_two_processes_give_the_same_bytes_as_one(
    write: WriteRows, curated: CurateFiles, cache: ChunkCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_SMALL_BYTES", 0)
    file = write(first_version())
    one = curated(file, chunk_bytes=CHUNK)
    two = curated(file, chunk_bytes=CHUNK, processes=2, cache=cache)
    assert one.bytes == two.bytes
    assert (one.report, one.exhibits) == (two.report, two.exhibits)
