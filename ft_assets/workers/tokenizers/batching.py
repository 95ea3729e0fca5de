"""Many segments in one call of a fast engine; segments that it does not encode exactly go to another one."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.templates.rendering import Span
from ft_assets.workers.tokenizers.encoder import Encoded, Encoder, concatenated

_CALL = 1 << 22
"""Characters per call."""


class BatchEncoder(ABC):
    """``Encoder`` whose tokens partition the UTF-8 bytes of a text, so that their ends determine what is learned.

    Args:
        other: creates the engine for the few segments that this one leaves out.
    """

    def __init__(self, other: Callable[[], Encoder]) -> None:
        self._make_other = other
        self._other: Encoder | None = None

    @abstractmethod
    def _run(
        self, text: str, data: bytes, starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Encode the segments at ``starts .. stops`` in ``data``, the UTF-8 of ``text``, separated by line breaks.

        Returns ids int32 [tokens], ends of the tokens in ``data`` int64 [tokens], and the number of tokens of each
        segment int64, -1 for one left to the other engine.
        """

    def encode(
        self, segments: Sequence[str], learned: Sequence[Sequence[Span]], opening: Collection[int] = ()
    ) -> Encoded:
        parts = [self._call(segments[start:end], learned[start:end]) for start, end in _calls(segments)]
        return parts[0] if len(parts) == 1 else concatenated(pair for part in parts for pair in part.pairs())

    def _call(self, segments: Sequence[str], learned: Sequence[Sequence[Span]]) -> Encoded:
        text = "\n".join(segments)
        data = text.encode()
        sizes = np.fromiter(map(len, segments), np.int64, len(segments))
        stops = np.cumsum(sizes + 1) - 1
        spans = _spans(learned, stops - sizes)
        starts = stops - sizes
        if len(data) > len(text):
            # Byte offset of each character: continuation bytes start with the bits 10.
            heads = np.append(np.flatnonzero(np.frombuffer(data, np.uint8) & 0xC0 != 0x80), len(data))
            starts, stops, spans = heads[starts], heads[stops], heads[spans]
        ids, ends, counts = self._run(text, data, starts, stops)
        offsets = offsets_of(np.maximum(counts, 0))
        begins = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
        some = counts > 0
        begins[offsets[:-1][some]] = starts[some]
        found = Encoded(ids=ids, learned=_overlapping(begins, ends, spans), offsets=offsets)
        odd = np.flatnonzero(counts < 0).tolist()
        return self._completed(found, segments, learned, odd) if odd else found

    def _completed(
        self, found: Encoded, segments: Sequence[str], learned: Sequence[Sequence[Span]], odd: list[int]
    ) -> Encoded:
        if self._other is None:
            self._other = self._make_other()
        pairs = found.pairs()
        rest = self._other.encode([segments[number] for number in odd], [learned[number] for number in odd])
        for number, pair in zip(odd, rest.pairs(), strict=True):
            pairs[number] = pair
        return concatenated(pairs)


def _spans(learned: Sequence[Sequence[Span]], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Spans of segments that begin at ``starts``, relative to the whole, int64 [spans, 2]."""
    counts = np.fromiter(map(len, learned), np.int64, len(learned))
    spans = np.array(list(itertools.chain.from_iterable(learned)), np.int64).reshape(-1, 2)
    return spans + np.repeat(starts, counts)[:, None]


def _overlapping(begins: NDArray[np.int64], ends: NDArray[np.int64], spans: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which tokens, given by their start and end bytes, overlap one of the byte spans."""
    first = np.searchsorted(ends, spans[:, 0], side="right")
    last = np.searchsorted(begins, spans[:, 1], side="left")
    some = (first < last) & (spans[:, 0] < spans[:, 1])
    changes = np.zeros(len(ends) + 1, np.int64)
    np.add.at(changes, first[some], 1)
    np.add.at(changes, last[some], -1)
    return np.cumsum(changes[:-1]) > 0


def _calls(segments: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Runs of segments with at most ``_CALL`` characters, or of a single longer one."""
    start = size = 0
    for number, segment in enumerate(segments):
        size += len(segment) + 1
        if size > _CALL and number > start:
            yield start, number
            start, size = number, len(segment) + 1
    if start < len(segments):
        yield start, len(segments)
