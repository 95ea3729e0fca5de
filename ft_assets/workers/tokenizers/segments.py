"""Split documents into control tokens and the segments of text between them, and join their ids again.

Hugging Face's tokenizers find their added tokens first and encode the text between them separately, so a document's ids
are those of its segments with the control tokens' own ids in between. Text that spells a control token in a message is
inside a segment.
"""

import bisect
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.templates.rendering import Span
from ft_assets.workers.tokenizers.encoder import Encoder, has_utf8
from ft_resources.errors import BadData

SEGMENT = -1
"""In ``Cuts.parts``: the next segment."""

# What Rust's \s matches, which a control token may swallow; Python's isspace includes a few more.
_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


@dataclass(kw_only=True, slots=True)
class Cuts:
    """Documents in pieces.

    For ``<|user|>hi<|end|>`` with ``hi<|end|>`` learned: segments ``["hi"]``, learned ``[[(0, 2)]]``, parts
    ``[<id of user>, SEGMENT, <id of end>]``, parts_learned ``[False, False, True]``, offsets ``[0, 3]``.

    Args:
        segments: texts, in order; none is empty.
        learned: the learned spans of each segment's characters.
        parts: ids of control tokens, and ``SEGMENT`` for a segment.
        parts_learned: which control tokens are learned (a segment's entry is ignored).
        offsets: document ``i`` has the parts ``offsets[i] .. offsets[i + 1]``.
    """

    segments: list[str] = field(default_factory=list)
    learned: list[Sequence[Span]] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    parts_learned: list[bool] = field(default_factory=list)
    offsets: list[int] = field(default_factory=lambda: [0])

    def add(self, text: str, tokens: Sequence[Span], ids: Mapping[str, int], learned: Sequence[Span]) -> None:
        """Add a document: its text, the spans of control tokens, their ids, and the learned spans in order."""
        position = 0
        for start, end in tokens:
            near = _near(learned, position, end)
            self.add_text(text, position, start, near)
            self.parts.append(ids[text[start:end]])
            self.parts_learned.append(any(first < end and start < last for first, last in near))
            position = end
        self.add_text(text, position, len(text), learned)
        self.offsets.append(len(self.parts))

    def add_text(self, text: str, start: int, end: int, learned: Sequence[Span]) -> None:
        """Add the segment ``text[start:end]`` of a text with these learned spans, unless it is empty."""
        if start == end:
            return
        self.segments.append(text[start:end])
        self.learned.append(
            [
                (max(first, start) - start, min(last, end) - start)
                for first, last in learned
                if first < end and start < last
            ]
        )
        self.parts.append(SEGMENT)
        self.parts_learned.append(False)


def _near(spans: Sequence[Span], start: int, end: int) -> Sequence[Span]:
    """The spans that may overlap ``start .. end``, from spans that are in order and disjoint."""
    first = bisect.bisect_right(spans, start, key=lambda span: span[1])
    return spans[first : bisect.bisect_left(spans, end, key=lambda span: span[0])]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """Tokens with their marks: ``ids`` int32, ``learned`` and ``control`` bool, all [tokens].

    ``control`` flags the control tokens that the template wrote.
    """

    ids: NDArray[np.int32]
    learned: NDArray[np.bool_]
    control: NDArray[np.bool_]

    def taken(self, chosen: NDArray[np.integer] | NDArray[np.bool_] | slice) -> "Tokens":
        return Tokens(ids=self.ids[chosen], learned=self.learned[chosen], control=self.control[chosen])


@dataclass(frozen=True, kw_only=True, slots=True)
class Documents(Tokens):
    """Concatenated documents; ``offsets`` int64 [documents + 1]."""

    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def document(self, number: int) -> Tokens:
        return self.taken(slice(int(self.offsets[number]), int(self.offsets[number + 1])))

    @staticmethod
    def of(pool: Sequence[Tokens], offsets: NDArray[np.int64], places: NDArray[np.int64] | None = None) -> "Documents":
        """The tokens at ``places`` (None: all) of a concatenated pool."""
        chosen = slice(None) if places is None else places
        return Documents(
            ids=np.concatenate([np.empty(0, np.int32), *(part.ids for part in pool)])[chosen],
            learned=np.concatenate([np.empty(0, np.bool_), *(part.learned for part in pool)])[chosen],
            control=np.concatenate([np.empty(0, np.bool_), *(part.control for part in pool)])[chosen],
            offsets=offsets,
        )


class DocumentEncoder:
    """Runs an engine over the segments of documents and inserts the control tokens between them.

    Args:
        control_ids: the control tokens that ``Documents.control`` flags.
        swallowing: by id, whether a control token swallows the white space before it and after it.
    """

    def __init__(
        self, encoder: Encoder, *, control_ids: Collection[int], swallowing: Mapping[int, tuple[bool, bool]]
    ) -> None:
        self._encoder = encoder
        self._control = np.array(sorted(control_ids), np.int32)
        self._swallowing = {number: sides for number, sides in swallowing.items() if any(sides)}

    def encode(self, cuts: Cuts, where: Callable[[int], str] = "document {}".format) -> Documents:
        """Ids equal to Hugging Face's for each document as one text.

        Raises BadData for text without a UTF-8 form; ``where(number)`` names a document.
        """
        if self._swallowing and not self._swallowing.keys().isdisjoint(cuts.parts):
            cuts = swallowed(cuts, self._swallowing)
        parts = np.array(cuts.parts, np.int32)
        offsets = np.array(cuts.offsets, np.int64)
        texts = parts == SEGMENT
        opening = _opening(texts, offsets)
        try:
            encoded = self._encoder.encode(cuts.segments, cuts.learned, opening)
        except UnicodeEncodeError:
            raise _half_character(cuts, texts, offsets, where) from None
        # Each part's number of tokens, and where it starts and ends.
        lengths = np.ones(len(parts), np.int64)
        lengths[texts] = np.diff(encoded.offsets)
        edges = offsets_of(lengths)
        total = int(edges[-1])
        own = edges[1:][~texts] - 1
        filled = np.ones(total, np.bool_)
        filled[own] = False
        ids = np.empty(total, np.int32)
        ids[filled], ids[own] = encoded.ids, parts[~texts]
        learned = np.empty(total, np.bool_)
        learned[filled], learned[own] = encoded.learned, np.array(cuts.parts_learned, np.bool_)[~texts]
        control = ~filled
        control[own] = np.isin(ids[own], self._control)
        return Documents(ids=ids, learned=learned, control=control, offsets=edges[offsets])


def _opening(texts: NDArray[np.bool_], offsets: NDArray[np.int64]) -> Collection[int]:
    """Numbers of the segments that are their document's first part."""
    first = offsets[:-1][np.diff(offsets) > 0]
    numbers = np.cumsum(texts) - 1
    found: list[int] = numbers[first[texts[first]]].tolist()
    return found


def swallowed(cuts: Cuts, swallowing: Mapping[int, tuple[bool, bool]]) -> Cuts:
    """The cuts without the white space that control tokens swallow; the preceding token takes precedence.

    A token is learned if white space that it swallowed was to be learned.
    """
    result = Cuts()
    neither = (False, False)
    number = 0
    for first, last in itertools.pairwise(cuts.offsets):
        taken = False
        for place in range(first, last):
            if cuts.parts[place] != SEGMENT:
                result.parts.append(cuts.parts[place])
                result.parts_learned.append(cuts.parts_learned[place] or taken)
                taken = False
                continue
            text, spans = cuts.segments[number], cuts.learned[number]
            number += 1
            start, end = 0, len(text)
            if place > first and swallowing.get(cuts.parts[place - 1], neither)[1]:
                start = end - len(text.lstrip(_SPACE))
                result.parts_learned[-1] |= any(begin < start for begin, _ in spans)
            if place + 1 < last and swallowing.get(cuts.parts[place + 1], neither)[0]:
                end = max(start, len(text.rstrip(_SPACE)))
                taken = any(stop > end for _, stop in spans)
            result.add_text(text, start, end, spans)
        result.offsets.append(len(result.parts))
    return result


def _half_character(
    cuts: Cuts, texts: NDArray[np.bool_], offsets: NDArray[np.int64], where: Callable[[int], str]
) -> BadData:
    number = next(index for index, text in enumerate(cuts.segments) if not has_utf8(text))
    document = int(np.searchsorted(offsets, np.flatnonzero(texts)[number], side="right")) - 1
    return BadData(
        "the text has half a character (a lone surrogate), which has no UTF-8 form",
        where=where(document),
        remedy="Remove it, or write the text again from its source.",
    )
