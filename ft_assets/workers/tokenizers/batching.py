"""Many segments in one call of a fast engine; those that it is not exact for go to another one."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ft_assets.packs.encoding.encoder import Encoded, Encoder
from ft_assets.packs.templates.template import Span

_CALL = 1 << 22
"""Characters handed over at once."""


class BatchEncoder(ABC):
    """``Encoder`` whose tokens part the UTF-8 bytes of a text, so that their ends say what is learned.

    Args:
        other: makes the engine for the few segments that this one leaves out.
    """

    def __init__(self, other: Callable[[], Encoder]) -> None:
        self._make_other = other
        self._other: Encoder | None = None

    @abstractmethod
    def _run(
        self, text: str, data: bytes, starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Encode the segments that lie in ``data``, the UTF-8 of ``text``, at ``starts .. stops``, a line break
        between them.

        Returns ids int32 [tokens], ends of the tokens in ``data`` int64 [tokens], and tokens of each segment int64,
        -1 for one that is left to the other engine.
        """

    def encode(
        self, segments: Sequence[str], learned: Sequence[Sequence[Span]], opening: Collection[int] = ()
    ) -> Encoded:
        return _joined([self._call(segments[start:end], learned[start:end]) for start, end in _calls(segments)])

    def _call(self, segments: Sequence[str], learned: Sequence[Sequence[Span]]) -> Encoded:
        text = "\n".join(segments)
        data = text.encode()
        sizes = np.fromiter(map(len, segments), np.int64, len(segments))
        stops = np.cumsum(sizes + 1) - 1
        spans = _spans(learned, stops - sizes)
        starts = stops - sizes
        if len(data) > len(text):
            # Bytes of characters: those that continue one have 10 as their first bits.
            heads = np.append(np.flatnonzero(np.frombuffer(data, np.uint8) & 0xC0 != 0x80), len(data))
            starts, stops, spans = heads[starts], heads[stops], heads[spans]
        ids, ends, counts = self._run(text, data, starts, stops)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.maximum(counts, 0))])
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
        rest = self._other.encode([segments[number] for number in odd], [learned[number] for number in odd])
        pieces, done = [], 0
        for place, number in enumerate(odd):
            pieces += [_part(found, done, number), _part(rest, place, place + 1)]
            done = number + 1
        return _joined([*pieces, _part(found, done, len(segments))])


def _spans(learned: Sequence[Sequence[Span]], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Spans of segments that begin at ``starts`` as spans of the whole, int64 [spans, 2]."""
    counts = np.fromiter(map(len, learned), np.int64, len(learned))
    spans = np.array(list(itertools.chain.from_iterable(learned)), np.int64).reshape(-1, 2)
    return spans + np.repeat(starts, counts)[:, None]


def _overlapping(begins: NDArray[np.int64], ends: NDArray[np.int64], spans: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which tokens, given by the bytes where they begin and end, overlap one of the spans of bytes."""
    first = np.searchsorted(ends, spans[:, 0], side="right")
    last = np.searchsorted(begins, spans[:, 1], side="left")
    some = (first < last) & (spans[:, 0] < spans[:, 1])
    changes = np.zeros(len(ends) + 1, np.int64)
    np.add.at(changes, first[some], 1)
    np.add.at(changes, last[some], -1)
    return np.cumsum(changes[:-1]) > 0


def _part(found: Encoded, start: int, end: int) -> Encoded:
    """The segments ``start .. end`` alone."""
    first, last = int(found.offsets[start]), int(found.offsets[end])
    return Encoded(
        ids=found.ids[first:last], learned=found.learned[first:last], offsets=found.offsets[start : end + 1] - first
    )


def _joined(parts: Sequence[Encoded]) -> Encoded:
    if len(parts) == 1:
        return parts[0]
    shifts = np.cumsum([0, *(len(part.ids) for part in parts)])
    offsets = [part.offsets[1:] + shift for part, shift in zip(parts, shifts, strict=False)]
    return Encoded(
        ids=np.concatenate([np.empty(0, np.int32), *(part.ids for part in parts)]),
        learned=np.concatenate([np.empty(0, np.bool_), *(part.learned for part in parts)]),
        offsets=np.concatenate([np.zeros(1, np.int64), *offsets]),
    )


def _calls(segments: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Runs of segments with at most ``_CALL`` characters, or of one that has more."""
    start = size = 0
    for number, segment in enumerate(segments):
        size += len(segment) + 1
        if size > _CALL and number > start:
            yield start, number
            start, size = number, len(segment) + 1
    if start < len(segments):
        yield start, len(segments)
