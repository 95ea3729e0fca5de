"""MinHash, near-duplicates and 13-gram overlap beside datasketch and rensa, timed in turn in one process.

All figures are of one core and of documents of 500 ASCII characters. ``measure`` gives the raw figures,
``figures`` the rows of the table.
"""

import hashlib
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks import contamination
from benchmarks.table import Figure

CHARACTERS, DOCUMENTS, PAIRS = 500, 20_000, 5_000
_ROUNDS = 5


def measure() -> dict[str, float]:
    """The figures by key; about 40 seconds."""
    texts = _texts(DOCUMENTS, seed=1)
    return {**_minhash(texts), **_planted(), **_contamination(texts)}


def figures(found: dict[str, float]) -> list[Figure]:
    """Table rows of what ``measure`` found."""
    items = "real test items" if found["contamination_real"] else "generated test items; set FT_REAL_DATA for real ones"
    rensa = f"rensa, {found['rensa_docs_s']:,.0f} docs/s"
    given = f"rensa, {found['rensa_given_docs_s']:,.0f} docs/s"
    datasketch = f"datasketch, xxh32, {found['datasketch_docs_s']:,.0f} docs/s"
    lsh = "MinHashLSH(0.9) of datasketch"
    return [
        _row("minhash_docs_s", "MinHash, text to signature, documents/s", found, 400_000),
        _row("minhash_vs_rensa", "… times rensa, shingling included", found, 25, 1.0, rensa),
        _row("minhash_vs_rensa_given", "… times rensa with shingles given", found, 2, 1.0, given),
        _row("minhash_vs_datasketch", "… times datasketch update_batch", found, 150, 1.0, datasketch),
        _row("minhash_recall", "recall of planted pairs, Jaccard >= 0.9", found, 0.98, found["lsh_recall"], lsh),
        _row("minhash_precision", "precision after verification", found, 1.0),
        _row("contamination_docs_s", f"test items, documents/s ({items})", found, 450_000),
    ]


def _row(
    key: str, what: str, found: dict[str, float], goal: float, peer: float | None = None, peer_is: str = ""
) -> Figure:
    return Figure(
        key=key, what=what, ours=found[key], peer=peer, peer_is=peer_is, goal=f">= {goal:,}", met=found[key] >= goal
    )


def _texts(count: int, seed: int) -> list[str]:
    """Texts over 20,000 made-up words."""
    generator = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(generator.choices(letters, k=generator.randint(2, 9))) for _ in range(20_000)]
    return [" ".join(generator.choices(words, k=200))[:CHARACTERS] for _ in range(count)]


def _shingles(text: str) -> list[str]:
    return [text[at : at + 5] for at in range(len(text) - 4)]


def _minhash(texts: list[str]) -> dict[str, float]:
    import rensa
    import xxhash
    from datasketch import MinHash

    from ft_assets.workers.datasets.similarity.minhash import signatures

    array, some, few = pa.array(texts), texts[:1000], texts[:150]
    given = [_shingles(text) for text in some]

    def of_rensa() -> None:
        for text in some:
            rensa.RMinHash(128, 1).update(_shingles(text))

    def of_rensa_given() -> None:
        for shingles in given:
            rensa.RMinHash(128, 1).update(shingles)

    def of_datasketch() -> None:
        for text in few:
            minhash = MinHash(num_perm=128, scheme="affine32", hashfunc=xxhash.xxh32_intdigest)
            minhash.update_batch([shingle.encode() for shingle in _shingles(text)])

    rates = _rates(
        (lambda: signatures(array), len(texts)),
        (of_rensa, len(some)),
        (of_rensa_given, len(some)),
        (of_datasketch, len(few)),
    )
    ours, all_in, shingled, datasketch = rates
    return {
        "minhash_docs_s": ours,
        "minhash_vs_rensa": ours / all_in,
        "minhash_vs_rensa_given": ours / shingled,
        "minhash_vs_datasketch": ours / datasketch,
        "rensa_docs_s": all_in,
        "rensa_given_docs_s": shingled,
        "datasketch_docs_s": datasketch,
    }


def _rates(*works: tuple[Callable[[], object], int]) -> list[float]:
    """Documents/s of each, the best of some rounds in turn (so that a busy moment does not fall on one alone)."""
    best = [float("inf")] * len(works)
    works[0][0]()
    for _ in range(_ROUNDS):
        for index, (work, _) in enumerate(works):
            start = time.perf_counter()
            work()
            best[index] = min(best[index], time.perf_counter() - start)
    return [count / seconds for (_, count), seconds in zip(works, best, strict=True)]


def _planted() -> dict[str, float]:
    """Recall of pairs at 0.9 to 0.94, where it is hardest; precision by plain Python sets; datasketch's LSH beside."""
    from datasketch import MinHash, MinHashLSH

    from ft_assets.workers.datasets.similarity.minhash import band_hashes, signatures
    from ft_assets.workers.datasets.similarity.near import find_duplicates

    generator = random.Random(3)
    texts = []
    for text in _texts(PAIRS, seed=2):
        changed = list(text)
        for at in generator.sample(range(4, CHARACTERS - 4), generator.randint(4, 6)):
            changed[at] = "#"
        texts += [text, "".join(changed)]
    sets = [set(_shingles(text)) for text in texts]

    def jaccard(one: int, other: int) -> float:
        return len(sets[one] & sets[other]) / len(sets[one] | sets[other])

    due = {at for at in range(1, len(texts), 2) if jaccard(at, at - 1) >= 0.9}
    array = pa.array(texts)
    bands = band_hashes(array)
    table = pa.table(
        {
            "content": pa.array([hashlib.sha256(text.encode()).digest() for text in texts], pa.binary(32)),
            **{f"band_{band:02d}": bands[:, band].copy() for band in range(bands.shape[1])},
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.arrow"
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
        found = find_duplicates([path], array.take, 0.9, Path(folder) / "scratch", 500_000_000).duplicates
    pairs = list(zip(found["at"].to_pylist(), found["kept"].to_pylist(), strict=True))
    index = MinHashLSH(threshold=0.9, num_perm=128)
    seen = 0
    for at, values in enumerate(signatures(array)):
        minhash = MinHash(hashvalues=values, scheme="affine32", num_perm=128)
        if at in due:
            seen += str(at - 1) in index.query(minhash)
        index.insert(str(at), minhash)
    return {
        "minhash_recall": len(due & {at for at, _ in pairs}) / len(due),
        "minhash_precision": sum(jaccard(at, kept) >= 0.9 for at, kept in pairs) / max(len(pairs), 1),
        "lsh_recall": seen / len(due),
    }


def _contamination(texts: list[str]) -> dict[str, float]:
    from ft_assets.workers.datasets.similarity.items import ItemIndex
    from ft_assets.workers.suites.asked import Asked

    made = _texts(17_000, seed=4)
    real = "FT_REAL_DATA" in os.environ
    suites = contamination.suites() if real else [("made", [Asked.of(text, []) for text in made])]
    with tempfile.TemporaryDirectory() as folder:
        index = ItemIndex.build(suites, Path(folder) / "items")
        array = pa.array(texts)
        (rate,) = _rates((lambda: index.find(array), len(texts)))
    return {"contamination_docs_s": rate, "contamination_real": float(real)}
