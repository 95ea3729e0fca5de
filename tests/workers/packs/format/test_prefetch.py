"""What coming windows need is fetched ahead: once, within the room there is; damage is told where it is read."""

import itertools
import threading
import time
from pathlib import Path

import pytest

from ft_assets.workers.packs.format import CachedFiles, Pack
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
        ahead._thread.join(30)
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
        ahead._thread.join(30)
    assert cached(artifact, cache) >= shard_files(0, 1) - {name}
    assert name not in cached(artifact, cache)
    with pytest.raises(CorruptArtifact, match="does not match its sha256"):
        pack.read([0])
    assert pack.read([8]).input_ids.tolist() == tokens(8)


def test_nothing_is_fetched_ahead_of_a_pack_on_local_disk(tmp_path: Path, cache: FileCache) -> None:
    files = CachedFiles(publish(Store(str(tmp_path / "store")), tmp_path), cache)
    pack = Pack.open(files, "train")
    with files.prefetch(pack.names(range(WINDOWS))) as ahead:
        ahead._thread.join(30)
    assert not cache.root.exists()
    assert not files._in_place.keys() & shard_files(0)


class _Fetches:
    """Notes what a prefetch asks for, and lets the test wait for that."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._asked = threading.Condition()

    def __call__(self, name: str) -> None:
        with self._asked:
            self.names.append(name)
            self._asked.notify()

    def reach(self, count: int) -> list[str]:
        """The names once there are ``count``, and a moment later."""
        with self._asked:
            assert self._asked.wait_for(lambda: len(self.names) >= count, 30)
        time.sleep(0.05)
        return self.names


def test_no_more_than_there_is_room_for_is_fetched_ahead() -> None:
    fetches = _Fetches()
    sizes = {"a": 10, "b": 10, "c": 10, "huge": 99, "d": 10, "e": 10}
    with Prefetch(sizes, fetches, sizes.__getitem__, room=25) as ahead:
        assert fetches.reach(2) == ["a", "b"]
        ahead.read("a")
        assert fetches.reach(3) == ["a", "b", "c"]
        # What the reader was faster with is left out.
        ahead.read("d")
        ahead.read("b")
        assert fetches.reach(3) == ["a", "b", "c"]
        # A file larger than the room comes alone.
        ahead.read("c")
        assert fetches.reach(4) == ["a", "b", "c", "huge"]
        ahead.read("huge")
        assert fetches.reach(5) == ["a", "b", "c", "huge", "e"]
    assert not ahead._thread.is_alive()


def test_closing_waits_for_the_file_at_hand_and_begins_no_other() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), []

    def fetch(name: str) -> None:
        begun.set()
        assert go_on.wait(30)
        done.append(name)

    ahead = Prefetch(["a", "b"], fetch, lambda name: 1, room=10)
    assert begun.wait(30)
    closing = threading.Thread(target=ahead.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    go_on.set()
    closing.join(30)
    assert not ahead._thread.is_alive()
    assert done == ["a"]
