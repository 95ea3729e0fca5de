"""A pack of eight shards in a bucket, and what a machine's cache holds of it."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from ft_assets.workers.packs.format import Layout, PackWriter
from ft_assets.workers.packs.format.layout import ARRAYS, array_name
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import digest
from ft_resources.file_cache import FileCache
from ft_resources.store import Store
from tests.workers.packs.made import made_spool

WINDOWS, WINDOW_TOKENS, SHARDS = 64, 512, 8
IDENTITY = {"asset": "token_pack"}
ADDRESS = Address(tenant="acme", asset="token_pack", fingerprint=digest(IDENTITY))


def publish(store: Store, folder: Path) -> Artifact:
    """A pack of 64 windows in eight shards; token ids count up, window after window."""
    spool = made_spool(folder / "spool", [WINDOW_TOKENS] * WINDOWS)
    layout = Layout(order=np.arange(WINDOWS), window_offsets=np.arange(WINDOWS + 1))
    limit = WINDOWS // SHARDS * WINDOW_TOKENS
    PackWriter(folder / "pack", "train", "chat", WINDOW_TOKENS, shard_tokens=limit).write(spool, layout)
    return Artifacts(store).publish(ADDRESS, folder / "pack", writer="w1", identity=IDENTITY, actor="test")


def damage(store: Store, artifact: Artifact) -> str:
    """Flip a bit in the bucket, in the tokens of the first shard; that file's name."""
    name = array_name("train", 0, "input_ids")
    data = bytearray(store.get(artifact.location(name)))
    data[-1] ^= 1
    store.put(artifact.location(name), bytes(data))
    return name


def limited(cache: FileCache, limit: float) -> FileCache:
    return FileCache(cache.root.parent, int(limit))


def tokens(window: int) -> list[int]:
    return list(range(window * WINDOW_TOKENS, (window + 1) * WINDOW_TOKENS))


def shard_files(*shards: int) -> set[str]:
    return {array_name("train", shard, name) for shard in shards for name in ARRAYS}


def own_files(*shards: int) -> set[str]:
    """Files whose content no other shard has; those of equal content are one file in the cache."""
    return {array_name("train", shard, name) for shard in shards for name in ("input_ids", "examples")}


def room(artifact: Artifact, shards: float) -> int:
    """Bytes that what all shards have in common, the index and so many shards take."""
    sizes = {name: entry.size for name, entry in artifact.manifest.files.items()}
    common = (shard_files(0) - own_files(0)) | {"train/index.json"}
    return int(sum(sizes[name] for name in common) + shards * sum(sizes[name] for name in own_files(0)))


def contents(artifact: Artifact, names: Iterable[str]) -> set[str]:
    return {artifact.manifest.files[name].sha256 for name in names}


def require_each_once(fetched: Counter[str], artifact: Artifact, names: Iterable[str]) -> None:
    """What these files hold was fetched, nothing else, and nothing twice."""
    assert contents(artifact, fetched) == contents(artifact, names)
    assert fetched.total() == len(contents(artifact, names))


def cached_sizes(cache: FileCache) -> dict[str, int]:
    """The whole files in the cache, by digest."""
    found = {}
    for path in cache.root.glob("[!.]*/[!.]*"):
        # Another thread may just be making room.
        with suppress(FileNotFoundError):
            found[path.name] = path.stat().st_size
    return found


def cached(artifact: Artifact, cache: FileCache) -> set[str]:
    """The names of the whole files in the cache."""
    digests = cached_sizes(cache)
    return {name for name, entry in artifact.manifest.files.items() if entry.sha256 in digests}
