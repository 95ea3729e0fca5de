"""Overlap with test items: an index of their 13-word grams in a memory-mapped file."""

import hashlib
import json
import os
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from ft_assets.workers.datasets.similarity.hashing import text_buffers
from ft_assets.workers.datasets.similarity.words import all_grams, count_overlap, insert, letter_table
from ft_resources.errors import BadData

_MAGIC = b"ftgrams2"
_HEADER = 4096
_MOST_SOURCES = 32_767
_BATCH_ROWS = 16_384
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

    def __init__(self, path: Path, sources: tuple[str, ...], grams: int, slots: int, words: int) -> None:
        self.path, self.sources, self.grams = path, sources, grams
        self._keys: np.ndarray = np.memmap(path, np.uint64, "r", _HEADER, (slots,))
        self._bits: np.ndarray = np.memmap(path, np.uint64, "r", _HEADER + 8 * slots, (words,))
        self._owners: np.ndarray = np.memmap(path, np.int16, "r", _HEADER + 8 * (slots + words), (slots,))

    @classmethod
    def build(
        cls,
        named_texts: Iterable[tuple[str, pa.Array | pa.ChunkedArray]],
        path: Path,
        common: np.ndarray | None = None,
        *,
        own: bool = False,
    ) -> Self:
        """Write an index of ``(name of the source, its texts)`` to ``path`` and open it.

        ``common`` are grams without information (see ``common_grams``): texts are counted as if they did not contain
        them. ``own`` says that the texts are in NFC and that only the caller uses the file, so its bytes need no check.

        A name may occur several times. A gram that several sources have belongs to the first. The file's bytes depend
        only on the names and texts in their order, not on how they are cut into arrays. Besides one array of texts,
        memory holds only memory maps.
        """
        grams = ((name, grams_of(piece)) for name, texts in named_texts for piece in _pieces(texts, nfc=own))
        return cls.build_of_grams(grams, path, common, own=own)

    @classmethod
    def build_of_grams(
        cls,
        named_grams: Iterable[tuple[str, np.ndarray]],
        path: Path,
        common: np.ndarray | None = None,
        *,
        own: bool = False,
    ) -> Self:
        """``build`` from the grams of the texts, as returned by ``grams_of``."""
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
            _write(path, spool, tuple(names), runs, checked=not own)
        finally:
            spool.unlink(missing_ok=True)
        return cls.open(path, own=own)

    @classmethod
    def open(cls, path: Path, *, own: bool = False) -> Self:
        """Map the index at ``path``. Raises BadData unless every byte is as ``build`` wrote it (``own``: see there)."""
        remedy = "Build the index again; it is made of the eval suites alone."
        try:
            with path.open("rb") as file:
                head = file.read(_HEADER)
                length = int.from_bytes(head[8:12], "little")
                if head[:8] != _MAGIC or not 0 < length <= _HEADER - 12:
                    raise ValueError("it is no index of grams, or one of another version")
                header = json.loads(head[12 : 12 + length])
                size = _HEADER + 10 * header["slots"] + 8 * header["words"]
                names = header.pop("digest_of_rest"), path.stat().st_size
                if names[1] != size + header["names_bytes"]:
                    raise ValueError(f"it has {names[1]} bytes instead of {size + header['names_bytes']}")
                if not own and names[0] != _digest(header, file):
                    raise ValueError("its bytes are not those that were written")
                file.seek(size)
                sources = tuple(json.loads(file.read()))
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise BadData(f"the index of test items cannot be used: {error}", where=path.name, remedy=remedy) from error
        return cls(path, sources, header["grams"], header["slots"], header["words"])

    def overlap(self, texts: pa.Array | pa.ChunkedArray) -> Overlap:
        """How much of each text occurs in test items. Texts must be in NFC, as forms return them."""
        offsets, data = text_buffers(texts)
        count = len(offsets) - 1
        grams, hits, most = np.empty(count, np.uint32), np.empty(count, np.uint32), np.empty(count, np.int16)
        common = self.sources.index(_COMMON) if _COMMON in self.sources else -1
        count_overlap(
            offsets, data, letter_table(), self._keys, self._owners, self._bits, len(self.sources), common, grams, hits,
            most,
        )  # fmt: skip
        return Overlap(grams, hits, most)


def grams_of(texts: pa.Array) -> np.ndarray:
    """All grams (uint64) of ``texts``, which must be in NFC, one text after the other."""
    return all_grams(*text_buffers(texts), letter_table())


def common_grams(texts: pa.Array | pa.ChunkedArray, more_than: int) -> np.ndarray:
    """The grams (uint64, ascending) that occur in ``texts`` (in NFC) more than ``more_than`` times: fixed wording."""
    found = [grams_of(piece) for piece in _pieces(texts, nfc=True)]
    grams = np.concatenate([np.zeros(0, np.uint64), *found])
    grams.sort()
    # The same gram occurs again that many places later.
    first = grams[: max(len(grams) - more_than, 0)]
    return np.unique(first[grams[more_than:] == first])


def _pieces(texts: pa.Array | pa.ChunkedArray, *, nfc: bool) -> Iterator[pa.Array]:
    for start in range(0, len(texts), _BATCH_ROWS):
        if nfc:
            yield texts.slice(start, _BATCH_ROWS)
            continue
        # Not pyarrow's utf8_normalize: in 25.0 its "NFC" decomposes.
        piece = texts.slice(start, _BATCH_ROWS).to_pylist()
        yield pa.array([unicodedata.normalize("NFC", text or "") for text in piece], pa.large_string())


def _write(path: Path, spool: Path, names: tuple[str, ...], runs: list[tuple[int, int]], *, checked: bool) -> None:
    total = sum(count for _, count in runs)
    # At most half full; with sixteen filter bits per gram, one in seventy unknown grams passes.
    slots = 1 << max((2 * total - 1).bit_length(), 4)
    words = slots // 8
    listed = json.dumps(names).encode()
    part = path.with_name(path.name + ".part")
    size = _HEADER + 10 * slots + 8 * words
    with part.open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(listed)
    keys = np.memmap(part, np.uint64, "r+", _HEADER, (slots,))
    bits = np.memmap(part, np.uint64, "r+", _HEADER + 8 * slots, (words,))
    owners = np.memmap(part, np.int16, "r+", _HEADER + 8 * (slots + words), (slots,))
    given = np.memmap(spool, np.uint64, "r") if total else np.zeros(0, np.uint64)
    grams, start = 0, 0
    for source, count in runs:
        grams += insert(given[start : start + count], source, keys, owners, bits)
        start += count
    header = {"slots": slots, "words": words, "grams": grams, "names_bytes": len(listed)}
    with part.open("r+b") as file:
        file.seek(_HEADER)
        head = json.dumps({**header, "digest_of_rest": _digest(header, file) if checked else ""}).encode()
        file.seek(0)
        file.write(_MAGIC + len(head).to_bytes(4, "little") + head)
    os.replace(part, path)


def _digest(header: dict[str, int], file) -> str:  # type: ignore[no-untyped-def]
    """Digest of the header's numbers and of everything after the header."""
    file.seek(_HEADER)
    digest = hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=32)
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
