"""A pack in a bucket: what a training reads is fetched once, whole, and within the limit. On a real S3 server."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ft_assets.workers.packs.format import CachedFiles, Pack
from ft_assets.workers.packs.format import pack as reading
from ft_assets.workers.packs.format.layout import array_name
from ft_resources.artifacts import Artifact
from ft_resources.errors import CorruptArtifact
from ft_resources.file_cache import FileCache
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.counting_store import CountingStore
from tests.workers.packs.format.bucket import (
    ADDRESS,
    SHARDS,
    WINDOW_TOKENS,
    WINDOWS,
    cached,
    cached_sizes,
    damage,
    limited,
    own_files,
    publish,
    require_each_once,
    room,
    shard_files,
    tokens,
)


def test_opening_fetches_the_index_alone(store: CountingStore, artifact: Artifact, cache: FileCache) -> None:
    pack = Pack.open(CachedFiles(artifact, cache), "train")
    assert (len(pack), pack.index.tokens) == (WINDOWS, WINDOWS * WINDOW_TOKENS)
    assert store.fetched == {"train/index.json": 1}
    with pytest.raises(FileNotFoundError):
        Pack.open(CachedFiles(artifact, cache), "validation")


def test_random_reads_fetch_the_shards_they_touch_and_each_once(
    store: CountingStore, artifact: Artifact, cache: FileCache
) -> None:
    pack = Pack.open(CachedFiles(artifact, cache), "train")
    random = np.random.default_rng(3)
    inside = [window for window in range(WINDOWS) if window // 8 in (1, 4, 5)]
    for _ in range(20):
        windows = random.choice(inside, 4).tolist()
        read = pack.read(windows).input_ids.tolist()
        assert read == [token for window in windows for token in tokens(window)]
    require_each_once(store.fetched, artifact, shard_files(1, 4, 5) | {"train/index.json"})


def test_examples_are_read_without_fetching_tokens(store: CountingStore, artifact: Artifact, cache: FileCache) -> None:
    pack = Pack.open(CachedFiles(artifact, cache), "train")
    assert pack.examples_of([9, 60]).tolist() == [9, 60]
    assert pack.example_row(60) == 61
    assert not any("input_ids" in name or "learned" in name for name in store.fetched)


def test_a_second_run_on_the_machine_finds_everything_there(
    store: CountingStore, artifact: Artifact, cache: FileCache
) -> None:
    for _ in range(2):
        Pack.open(CachedFiles(artifact, cache), "train").read(range(WINDOWS))
    require_each_once(store.fetched, artifact, shard_files(*range(SHARDS)) | {"train/index.json"})


_RANK = """
import sys
from pathlib import Path
import numpy as np
from ft_assets.workers.packs.format import CachedFiles, Pack
from ft_resources.artifacts import Address, Artifacts
from ft_resources.file_cache import FileCache
from ft_resources.store import Store

class Noting(Store):
    def download(self, path, target):
        with open(sys.argv[3], "a") as file:
            file.write(path.split("/w1/")[1] + "\\n")
        super().download(path, target)

rank = int(sys.argv[4])
artifact = Artifacts(Noting(sys.argv[1])).get(Address.parse(sys.argv[5]))
pack = Pack.open(CachedFiles(artifact, FileCache(Path(sys.argv[2]))), "train")
order = np.random.default_rng(7).permutation(len(pack))
print(sorted(pack.read(order[rank::2]).input_ids.tolist()))
"""


def test_ranks_that_share_a_cache_fetch_each_file_once_between_them(
    store: CountingStore, artifact: Artifact, cache: FileCache, tmp_path: Path
) -> None:
    log = tmp_path / "fetched"
    arguments = [store.url, str(cache.root.parent), str(log)]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", _RANK, *arguments, str(rank), str(ADDRESS)], stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    read = [token for rank in ranks for token in json.loads(rank.communicate(timeout=600)[0])]
    assert sorted(read) == list(range(WINDOWS * WINDOW_TOKENS))
    fetched = Counter(log.read_text().split())
    require_each_once(fetched, artifact, shard_files(*range(SHARDS)) | {"train/index.json"})


def test_the_limit_holds_and_what_is_mapped_stays_usable(
    store: CountingStore, artifact: Artifact, cache: FileCache
) -> None:
    limit = room(artifact, 2.5)
    pack = Pack.open(CachedFiles(artifact, limited(cache, limit)), "train")
    first = pack.read([0])
    for window in range(0, WINDOWS, 8):
        assert pack.read([window]).input_ids.tolist() == tokens(window)
        assert sum(cached_sizes(cache).values()) <= limit
    assert not own_files(0) & cached(artifact, cache)
    assert first.input_ids.tolist() == pack.read([0]).input_ids.tolist() == tokens(0)
    assert store.fetched[array_name("train", 0, "input_ids")] == 1


def test_a_limit_below_one_shard_still_lets_it_be_read(artifact: Artifact, cache: FileCache) -> None:
    pack = Pack.open(CachedFiles(artifact, limited(cache, 1)), "train")
    for window in (0, 63):
        assert pack.read([window]).input_ids.tolist() == tokens(window)
        # Each file makes room for the next; it was mapped before.
        assert len(cached_sizes(cache)) == 1


def test_what_was_opened_longest_ago_makes_room(
    store: CountingStore, artifact: Artifact, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Mappings are renewed at each read, so that the cache sees each use.
    monkeypatch.setattr(reading, "_RENEWED_S", -1.0)
    pack = Pack.open(CachedFiles(artifact, limited(cache, room(artifact, 2.5))), "train")
    for shard in (0, 1, 0, 2):
        pack.read([8 * shard])
    there = cached(artifact, cache)
    assert there >= own_files(0, 2)
    assert array_name("train", 1, "input_ids") not in there
    pack.read([8])
    assert store.fetched[array_name("train", 1, "input_ids")] == 2
    assert store.fetched[array_name("train", 0, "input_ids")] == 1


def test_a_shard_removed_between_finding_and_mapping_is_fetched_again(
    artifact: Artifact, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = CachedFiles(artifact, cache)
    pack = Pack.open(files, "train")
    real, removed = files.path, set()

    def swept(name: str) -> Path:
        path = real(name)
        if name not in removed:
            removed.add(name)
            path.unlink()
        return path

    monkeypatch.setattr(files, "path", swept)
    assert pack.read([3]).input_ids.tolist() == tokens(3)


def test_half_a_file_in_the_cache_is_fetched_again(store: CountingStore, artifact: Artifact, cache: FileCache) -> None:
    Pack.open(CachedFiles(artifact, cache), "train").read([0])
    name = array_name("train", 0, "input_ids")
    path = cache.path(artifact, name)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:100])
    assert Pack.open(CachedFiles(artifact, cache), "train").read([0]).input_ids.tolist() == tokens(0)
    assert store.fetched[name] == 2


def test_damage_in_the_bucket_is_an_error_and_never_lands_in_the_cache(
    store: CountingStore, artifact: Artifact, cache: FileCache
) -> None:
    name = damage(store, artifact)
    pack = Pack.open(CachedFiles(artifact, cache), "train")
    with pytest.raises(CorruptArtifact, match="does not match its sha256"):
        pack.read([0])
    assert name not in cached(artifact, cache)
    assert pack.read([8]).input_ids.tolist() == tokens(8)


def test_a_download_that_dies_leaves_nothing_that_others_could_read(
    artifact: Artifact, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(self: Store, path: str, target: Path) -> None:
        target.write_bytes(b"half")
        raise KeyboardInterrupt

    pack = Pack.open(CachedFiles(artifact, cache), "train")
    monkeypatch.setattr(CountingStore, "download", dying)
    with pytest.raises(KeyboardInterrupt):
        pack.read([0])
    assert cached(artifact, cache) == {"train/index.json"}


def test_a_pack_on_local_disk_is_read_in_place_and_verified(tmp_path: Path, cache: FileCache) -> None:
    store = open_store(str(tmp_path / "store"), create=True)
    artifact = publish(store, tmp_path)
    pack = Pack.open(CachedFiles(artifact, cache), "train")
    assert pack.read([5]).input_ids.tolist() == tokens(5)
    assert not cache.root.exists()
    path = store.local_path(artifact.location(array_name("train", 7, "learned")))
    assert path is not None
    path.write_bytes(path.read_bytes()[:-1] + b"\7")
    with pytest.raises(CorruptArtifact):
        pack.read([63])
