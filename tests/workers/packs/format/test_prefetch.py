"""What coming windows need is fetched ahead: once, within the room there is; damage is told where it is read."""

import itertools
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from ft_assets.workers.packs.format import CachedFiles, Pack, prefetch
from ft_assets.workers.packs.format.layout import array_name
from ft_assets.workers.packs.format.prefetch import Prefetch
from ft_resources.artifacts import Artifact
from ft_resources.errors import CorruptArtifact
from ft_resources.file_cache import FileCache
from ft_resources.store import Store
from tests.counting_store import CountingStore
from tests.workers.packs.format.bucket import (
    SHARDS,
    WINDOWS,
    cached,
    cached_sizes,
    damage,
    limited,
    publish,
    require_each_once,
    room,
    shard_files,
    tokens,
)


def test_what_coming_windows_need_is_fetched_before_it_is_read(
    store: CountingStore, artifact: Artifact, cache: FileCache
) -> None:
    files = CachedFiles(artifact, cache)
    pack = Pack.open(files, "train")
    order = [41, 3, 40, 4, 60]
    with files.prefetch(pack.names(order)) as ahead:
        ahead._thread.join()
    fetched = list(store.fetched)[1:]
    assert [name for name in fetched if name.endswith("input_ids.npy")] == [
        array_name("train", shard, "input_ids") for shard in (5, 0, 7)
    ]
    assert pack.read(order).input_ids.tolist() == [token for window in order for token in tokens(window)]
    require_each_once(store.fetched, artifact, shard_files(5, 0, 7) | {"train/index.json"})


def test_the_names_of_an_endless_order_end(artifact: Artifact, cache: FileCache) -> None:
    pack = Pack.open(CachedFiles(artifact, cache), "train")
    assert set(pack.names(itertools.cycle(range(WINDOWS)))) == shard_files(*range(SHARDS))


def test_reading_and_fetching_ahead_at_once_fetch_each_file_once_and_stay_within_the_limit(
    store: CountingStore, artifact: Artifact, cache: FileCache
) -> None:
    limit = room(artifact, 2.5)
    files = CachedFiles(artifact, limited(cache, limit))
    pack = Pack.open(files, "train")
    with files.prefetch(pack.names(range(WINDOWS))):
        for window in range(WINDOWS):
            assert pack.read([window]).input_ids.tolist() == tokens(window)
            # What reader and thread fetch at the same moment do not see each other.
            assert sum(cached_sizes(cache).values()) <= limit + room(artifact, 1)
    require_each_once(store.fetched, artifact, shard_files(*range(SHARDS)) | {"train/index.json"})


def test_damage_that_is_met_ahead_is_an_error_where_it_is_read(
    store: CountingStore, artifact: Artifact, cache: FileCache
) -> None:
    name = damage(store, artifact)
    files = CachedFiles(artifact, cache)
    pack = Pack.open(files, "train")
    with files.prefetch(pack.names([0, 8])) as ahead:
        ahead._thread.join()
    assert cached(artifact, cache) >= shard_files(0, 1) - {name}
    assert name not in cached(artifact, cache)
    with pytest.raises(CorruptArtifact, match="does not match its sha256"):
        pack.read([0])
    assert pack.read([8]).input_ids.tolist() == tokens(8)


def test_nothing_is_fetched_ahead_of_a_pack_on_local_disk(tmp_path: Path, cache: FileCache) -> None:
    files = CachedFiles(publish(Store(str(tmp_path / "store")), tmp_path), cache)
    pack = Pack.open(files, "train")
    with files.prefetch(pack.names(range(WINDOWS))) as ahead:
        ahead._thread.join()
    assert not cache.root.exists()
    assert not files._in_place.keys() & shard_files(0)


class _Idle(threading.Condition):
    """Lets a test wait until the thread has nothing to do before the reader reads on."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.idle.set()
        return super().wait(timeout)

    def notify(self, n: int = 1) -> None:
        self.idle.clear()
        super().notify(n)


def test_no_more_than_there_is_room_for_is_fetched_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "threading", SimpleNamespace(Condition=_Idle, Thread=threading.Thread))
    sizes, fetched = {"a": 10, "b": 10, "c": 10, "huge": 99, "d": 10, "e": 10}, []
    with Prefetch(sizes, fetched.append, sizes.__getitem__, room=25) as ahead:

        def fetched_after(*read: str) -> list[str]:
            for name in read:
                ahead.read(name)
            assert ahead._changed.idle.wait(600)  # type: ignore[attr-defined]
            return fetched

        assert fetched_after() == ["a", "b"]
        assert fetched_after("a") == ["a", "b", "c"]
        # What the reader was faster with is left out.
        assert fetched_after("d", "b") == ["a", "b", "c"]
        # A file larger than the room comes alone.
        assert fetched_after("c") == ["a", "b", "c", "huge"]
        ahead.read("huge")
        ahead._thread.join()
    assert fetched == ["a", "b", "c", "huge", "e"]


def test_closing_waits_for_the_file_at_hand_and_begins_no_other() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), []

    def fetch(name: str) -> None:
        begun.set()
        assert go_on.wait(600)
        done.append(name)

    ahead = Prefetch(["a", "b"], fetch, lambda name: 1, room=10)
    assert begun.wait(600)

    def close() -> None:
        ahead.close()
        done.append("closed")

    closing = threading.Thread(target=close)
    closing.start()
    with ahead._changed:
        assert ahead._changed.wait_for(lambda: ahead._closed, 600)
    go_on.set()
    closing.join()
    assert done == ["a", "closed"]
