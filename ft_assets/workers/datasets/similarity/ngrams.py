"""Overlap with test items: an index of their 13-word grams in a memory-mapped file."""

import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from ft_assets.workers.datasets.forms.texts import has_stacked_marks
from ft_assets.workers.datasets.similarity.folded import Folded, fold_texts
from ft_assets.workers.datasets.similarity.grams import all_grams, count_overlap, insert
from ft_assets.workers.datasets.similarity.mapped import NewArrays, open_arrays

_MOST_SOURCES = 32_767
# Texts folded at a time: their words stay in the processor's cache, and their memory is used again for the next ones.
_CACHED_ROWS = 1024
# No suite has this name.
_COMMON = ""


@dataclass(frozen=True, slots=True)
class Overlap:
    """For each text: its number of ``grams`` (uint32) without common ones, how many of them occur in test items
    (``hits``, uint32), and the number of the source with most of these (``source``, int16; the first of equals; -1
    without hits)."""

    grams: np.ndarray
    hits: np.ndarray
    source: np.ndarray


class GramIndex:
    """An open index. ``sources``: the names by number; ``grams``: its number of distinct grams.

    Two different grams share a 64-bit hash with a probability of 5e-20 per pair. For 10 million texts of 80 grams
    against a million test grams, the chance of a false hit is 4e-5. Words and separators are those of ``words``. A text
    of 13 words or more is found by any 13 words in a row that it shares with an item. A text of 3 to 12 words is found
    only if all its words are all the words of an item that short, so index short questions also together with their
    answers.
    """

    def __init__(self, path: Path, arrays: Mapping[str, np.ndarray], grams: int) -> None:
        self.path, self.arrays, self.grams = path, arrays, grams
        self.sources = tuple(json.loads(arrays["sources"].tobytes()))

    @classmethod
    def build(
        cls,
        named_grams: Iterable[tuple[str, np.ndarray]],
        path: Path,
        common: np.ndarray | None = None,
        *,
        own: bool = False,
        more: Mapping[str, np.ndarray] | None = None,
    ) -> Self:
        """Write an index of ``(name of the source, grams of its texts)`` (see ``grams_of``) to ``path`` and open it.

        ``common`` are grams without information (see ``common_grams``): texts are counted as if they did not contain
        them. ``own`` says that only the caller uses the file, so its bytes need no check. ``more`` arrays are stored in
        the same file.

        A name may occur several times. A gram that several sources have belongs to the first. The file's bytes depend
        only on the names and grams in their order, not on how they are cut into arrays. Besides one array of grams,
        memory holds only memory maps.
        """
        names: dict[str, int] = {}
        runs: list[tuple[int, int]] = []
        spool = path.with_name(path.name + ".grams")
        try:
            with spool.open("wb") as file:
                if common is not None:
                    names[_COMMON] = 0
                    file.write(common.data)
                    runs.append((0, len(common)))
                for name, grams in named_grams:
                    file.write(grams.data)
                    runs.append((names.setdefault(name, len(names)), len(grams)))
            if len(names) > _MOST_SOURCES:
                raise ValueError(f"an index takes at most {_MOST_SOURCES} sources, not {len(names)}")
            _write(path, spool, tuple(names), runs, more or {}, checked=not own)
        finally:
            spool.unlink(missing_ok=True)
        return cls.open(path, own=own)

    @classmethod
    def open(cls, path: Path, *, own: bool = False) -> Self:
        """Map the index at ``path``. Unless it is ``own``, raises BadData if a byte is not as ``build`` wrote it."""
        arrays, notes = open_arrays(path, own=own)
        return cls(path, arrays, notes["grams"])

    def overlap(self, texts: pa.Array | pa.ChunkedArray) -> Overlap:
        """How much of each text occurs in test items. Texts must be in NFC, as forms return them."""
        parts = [self.overlap_of(folded) for folded in folded_blocks(texts)]
        return Overlap(*(np.concatenate([getattr(part, name) for part in parts]) for name in Overlap.__slots__))

    def overlap_of(self, folded: Folded) -> Overlap:
        """``overlap`` of folded texts."""
        count = len(folded.starts) - 1
        found = Overlap(np.empty(count, np.uint32), np.empty(count, np.uint32), np.empty(count, np.int16))
        common = self.sources.index(_COMMON) if _COMMON in self.sources else -1
        count_overlap(
            folded.starts, folded.words, self.arrays["keys"], self.arrays["owners"], self.arrays["bits"],
            len(self.sources), common, found.grams, found.hits, found.source,
        )  # fmt: skip
        return found


def folded_blocks(texts: pa.Array | pa.ChunkedArray) -> Iterator[Folded]:
    """``texts`` folded, some at a time; at least one block."""
    for start in range(0, max(len(texts), 1), _CACHED_ROWS):
        yield fold_texts(texts.slice(start, _CACHED_ROWS))


def grams_of(texts: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """All grams (uint64) of ``texts``, which must be in NFC, one text after the other."""
    return np.concatenate([all_grams(folded.starts, folded.words) for folded in folded_blocks(texts)])


def composed(texts: Iterable[str | None]) -> pa.Array:
    """``texts`` in NFC, as forms return rows' texts; a text that no row can have stays as it is."""
    # Not pyarrow's utf8_normalize: in 25.0 its "NFC" decomposes.
    found = [
        text if has_stacked_marks(text) else unicodedata.normalize("NFC", text)
        for text in (each or "" for each in texts)
    ]
    return pa.array(found, pa.large_string())


def common_grams(texts: pa.Array | pa.ChunkedArray, more_than: int) -> np.ndarray:
    """The grams (uint64, ascending) that occur in ``texts`` (in NFC) more than ``more_than`` times: fixed wording."""
    grams = np.sort(grams_of(texts))
    # The same gram occurs again that many places later.
    first = grams[: max(len(grams) - more_than, 0)]
    return np.unique(first[grams[more_than:] == first])


def _write(
    path: Path, spool: Path, names: tuple[str, ...], runs: list[tuple[int, int]], more: Mapping[str, np.ndarray], *,
    checked: bool,
) -> None:  # fmt: skip
    total = sum(count for _, count in runs)
    # At most half full; with sixteen filter bits per gram, one in seventy unknown grams passes.
    slots = 1 << max((2 * total - 1).bit_length(), 4)
    listed = np.frombuffer(json.dumps(names).encode(), np.uint8)
    new = NewArrays(
        path,
        {
            "keys": (np.uint64, slots),
            "bits": (np.uint64, slots // 8),
            "owners": (np.int16, slots),
            "sources": (np.uint8, len(listed)),
            **{name: (array.dtype.type, len(array)) for name, array in more.items()},
        },
    )
    for name, array in {"sources": listed, **more}.items():
        new.arrays[name][:] = array
    given = np.memmap(spool, np.uint64, "r") if total else np.zeros(0, np.uint64)
    grams, start = 0, 0
    for source, count in runs:
        grams += insert(
            given[start : start + count], source, new.arrays["keys"], new.arrays["owners"], new.arrays["bits"]
        )
        start += count
    new.seal({"grams": grams}, checked=checked)
