"""An index of test items by what they ask, beside the 13-grams of all their texts, in one memory-mapped file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from ft_assets.workers.datasets.forms.content_keys import user_texts
from ft_assets.workers.datasets.similarity.folded import fold_texts
from ft_assets.workers.datasets.similarity.item_kernel import (
    PIECE,
    enter,
    find_items,
    piece_hashes,
    whole_hashes,
)
from ft_assets.workers.datasets.similarity.ngrams import GramIndex, composed, folded_blocks, grams_of
from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.suites.asked import Asked

# A piece that more questions than this share is a turn of phrase.
_MOST_PARTS = 16
# A question of fewer words, or one that more items ask about other choices, gives no item away by itself.
_FEWEST_WORDS, _MOST_ASKING = 2, 2
# "Who are you?" may occur in any story: questions of at most this many words must open a row or be a line of their own.
_SHORT_WORDS = 5
# Words that people write before a question.
_LABELS = ("Question", "Q", "Prompt", "Problem", "Task", "Exercise", "Instruction", "User", "Human")
_TABLES = (
    "item_keys", "item_values", "item_bits", "piece_starts", "piece_parts", "piece_places", "part_sizes",
    "part_telling", "part_alone", "part_starts", "part_items", "choice_starts", "choice_ends", "choice_words", "labels",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """What each text contains of test items; see ``ngrams.Overlap`` for the first three.

    ``item`` (int32) is the item of which it contains most, -1 for none; ``share`` (float32) how much of its question;
    ``choices`` (uint8) how many of its choices; ``whole`` (uint8) 1 if the text gives the item away, 2 if only by a
    question of a few words.
    """

    grams: np.ndarray
    hits: np.ndarray
    source: np.ndarray
    item: np.ndarray
    share: np.ndarray
    choices: np.ndarray
    whole: np.ndarray

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """All fields by name."""
        return {name: getattr(self, name) for name in type(self).__slots__}

    def only(self, which: np.ndarray) -> "Found":
        """The results of the texts ``which`` (bool) alone."""
        return Found(*(values[which] for values in self.columns.values()))

    @staticmethod
    def joined(parts: "Sequence[Found]") -> "Found":
        """The results of ``parts``, at least one, in one."""
        return Found(*map(np.concatenate, zip(*(part.columns.values() for part in parts), strict=True)))

    def better(self, rows: np.ndarray, others: Self) -> Self:
        """``self``, changed for those of ``rows`` where ``others`` give an item away and ``self`` does not."""
        which = (others.whole > 0) & (self.whole[rows] == 0)
        for name in ("item", "share", "choices", "whole"):
            getattr(self, name)[rows[which]] = getattr(others, name)[which]
        return self

    def leaks(self, threshold: float) -> np.ndarray:
        """Whether each text gives an item away, or has more than ``threshold`` of its grams in items."""
        return (self.whole > 0) | (self.hits > threshold * self.grams)


class ItemIndex:
    """An open index. ``suites``: their names by number."""

    def __init__(self, grams: GramIndex) -> None:
        self._grams, self.suites = grams, grams.sources
        self._tables = [grams.arrays[name] for name in _TABLES]

    @classmethod
    def build(cls, suites: Sequence[tuple[str, Sequence[Asked]]], path: Path) -> Self:
        """Write an index of ``(name of the suite, its items)`` to ``path`` and open it."""
        texts = ((name, composed([text for item in items for text in item.texts])) for name, items in suites)
        grams = ((name, grams_of(each)) for name, each in texts)
        return cls(GramIndex.build(grams, path, more=_arrays(suites)))

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map the index at ``path``. Raises BadData unless every byte is as ``build`` wrote it."""
        return cls(GramIndex.open(path))

    def find(self, texts: pa.Array | pa.ChunkedArray) -> Found:
        """What each of ``texts`` (in NFC, as forms return them) has of the items."""
        blocks = []
        for folded in folded_blocks(texts):
            count = len(folded.starts) - 1
            overlap = self._grams.overlap_of(folded)
            item, share = np.empty(count, np.int32), np.empty(count, np.float32)
            chosen, whole = np.empty(count, np.uint8), np.empty(count, np.uint8)
            given = (folded.starts, folded.words, folded.breaks, *self._tables, item, share, chosen, whole)
            find_items(*given)
            blocks.append(Found(overlap.grams, overlap.hits, overlap.source, item, share, chosen, whole))
        return Found.joined(blocks)

    def find_in(self, examples: pa.RecordBatch, texts: pa.StringArray) -> Found:
        """``find`` for ``examples`` (flat ``texts``); also for the user's turns alone, where they are interrupted."""
        found = self.find(texts)
        rows, said = user_texts(examples)
        return found.better(rows, self.find(said)) if len(rows) else found

    def place(self, item: int) -> tuple[int, int]:
        """The number of an item's suite, and its own, from 1, in the suite."""
        suite = int(np.searchsorted(self._grams.arrays["suite_starts"], item, side="right")) - 1
        return suite, item - int(self._grams.arrays["suite_starts"][suite]) + 1

    def text(self, item: int) -> str:
        """An item's question and choices, for people."""
        starts, shown = self._grams.arrays["shown_starts"], self._grams.arrays["shown"]
        return shown[starts[item] : starts[item + 1]].tobytes().decode()

    def choices(self, item: int) -> int:
        """The number of an item's choices."""
        starts = self._grams.arrays["choice_starts"]
        return int(starts[item + 1] - starts[item])


def _arrays(suites: Sequence[tuple[str, Sequence[Asked]]]) -> dict[str, np.ndarray]:
    items = [item for _, each in suites for item in each]
    choices = fold_texts(composed([choice for item in items for choice in item.choices]))
    choice_starts = _edges([len(item.choices) for item in items])
    shown = [item.shown.encode() for item in items]
    return {
        **_questions(items, _signatures(whole_hashes(choices.starts, choices.words), choice_starts)),
        "choice_starts": choice_starts.astype(np.int32),
        "choice_ends": choices.starts,
        "choice_words": choices.words,
        "labels": fold_texts(pa.array(_LABELS)).words,
        "suite_starts": _edges([len(each) for _, each in suites]),
        "shown_starts": _edges([len(each) for each in shown]),
        "shown": np.frombuffer(b"".join(shown), np.uint8),
    }


def _questions(items: Sequence[Asked], signatures: np.ndarray) -> dict[str, np.ndarray]:
    """The tables of ``find_items`` up to ``part_items``. A part is a question that one or more items ask."""
    asking = np.repeat(np.arange(len(items)), [len(item.questions) for item in items])
    folded = fold_texts(composed([question for item in items for question in item.questions]))
    hashes = whole_hashes(folded.starts, folded.words)
    real = np.flatnonzero(hashes)
    parts, first, of_text = np.unique(hashes[real], return_index=True, return_inverse=True)
    begin = folded.starts[real[first]]
    sizes = folded.starts[real[first] + 1] - begin
    pairs = np.unique(np.stack([of_text, asking[real]], 1), axis=0)
    kinds = np.unique(np.stack([pairs[:, 0].astype(np.uint64), signatures[pairs[:, 1]]], 1), axis=0)
    asked = np.bincount(kinds[:, 0].astype(np.int64), minlength=len(parts))
    alone = ((asked <= _MOST_ASKING) & (sizes >= _FEWEST_WORDS)) * np.where(sizes <= _SHORT_WORDS, 2, 1)

    pieces = np.maximum(sizes - PIECE + 1, 0)
    of_part = np.repeat(np.arange(len(parts)), pieces)
    places = np.arange(len(of_part)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    found = piece_hashes(folded.words)[begin[of_part] + places]
    order = np.lexsort((places, of_part, found))
    found, of_part, places = found[order], of_part[order], places[order]
    _, group = np.unique(found, return_inverse=True)
    new = np.append(True, (np.diff(group) > 0) | (np.diff(of_part) > 0))[: len(group)]
    rare = np.bincount(group, weights=new)[group] <= _MOST_PARTS if len(group) else np.zeros(0, np.bool_)
    found, of_part, places = found[rare], of_part[rare], places[rare]
    keys, starts = np.unique(found, return_index=True)

    depth = np.zeros(int(sizes.sum()) + PIECE, np.int64)
    at = (np.cumsum(sizes) - sizes)[of_part] + places
    np.add.at(depth, at, 1)
    np.add.at(depth, at + PIECE, -1)
    told = np.append(0, np.cumsum(np.cumsum(depth) > 0))
    ends = np.cumsum(sizes)
    slots = 1 << max((2 * (len(keys) + len(parts)) - 1).bit_length(), 4)
    table = np.zeros(slots, np.uint64), np.zeros(slots, np.int32), np.zeros(max(slots // 8, 1), np.uint64)
    enter(np.concatenate([keys, parts]), *table)
    return {
        **dict(zip(_TABLES[:3], table, strict=True)),
        "piece_starts": np.append(starts, len(found)).astype(np.int32),
        "piece_parts": of_part.astype(np.int32),
        "piece_places": places.astype(np.int32),
        "part_sizes": sizes.astype(np.int32),
        "part_telling": (told[ends] - told[ends - sizes]).astype(np.int32),
        "part_alone": alone.astype(np.uint8),
        "part_starts": offsets_of(np.bincount(pairs[:, 0], minlength=len(parts))).astype(np.int32),
        "part_items": pairs[:, 1].astype(np.int32),
    }


def _edges(sizes: Sequence[int]) -> np.ndarray:
    return offsets_of(np.array(sizes, np.int64))


def _signatures(hashes: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """uint64 by item, equal for items with the same choices in any order."""
    sums = np.append(np.uint64(0), np.cumsum(hashes, dtype=np.uint64))
    return sums[starts[1:]] - sums[starts[:-1]]
