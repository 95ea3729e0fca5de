"""The policy on documents that are longer than a window."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.packing import pieces, shorten
from ft_assets.workers.tokenizers.segments import Documents, Tokens
from ft_resources.errors import BadData

Overlong = Literal["reject", "drop", "truncate", "split"]
# Rows that an error names.
_NAMED = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """Documents within the length limit.

    Args:
        documents: int64 offsets and tokens, in the order of the rows.
        origin: int64 [documents], the original document that each is made from.
        shortened: int32 [documents], tokens removed.
        dropped: numbers of the rows that are left out, and the tokens of their longest document.
    """

    documents: Documents
    origin: NDArray[np.int64]
    shortened: NDArray[np.int32]
    dropped: list[tuple[int, int]]


Contents = Callable[[int], NDArray[np.int8] | None]
"""The contents of a document by its number, as ``packing.shorten`` takes them; None if they cannot be located."""


def fit(
    documents: Documents, each: int, answers: int, max_length: int, overlong: Overlong, contents: Contents
) -> Fitted:
    """Apply ``overlong`` to rows of ``each`` documents, of which the first ``answers`` hold what the row itself says.

    Of a pair both do, and they go or stay together. KTO's second document holds another row's answer: where that is too
    long, the row's own document stands in its place.
    """
    lengths = documents.lengths
    if not (lengths > max_length).any():
        origin = np.arange(len(lengths))
        return Fitted(documents=documents, origin=origin, shortened=np.zeros(len(lengths), np.int32), dropped=[])
    tokens: list[Tokens] = []
    origin_of: list[int] = []
    shortened: list[int] = []
    dropped: list[tuple[int, int]] = []
    for row in range(len(lengths) // each):
        numbers = range(row * each, (row + 1) * each)
        own = [documents.document(number) for number in numbers]
        longest = max(len(document.ids) for document in own[:answers])
        made: list[list[Tokens]] | None = None
        if longest <= max_length:
            made = [[document] for document in own]
        elif overlong == "split":
            made = [list(_split(document, max_length)) for document in own]
        elif overlong == "truncate":
            made = _truncated(own, answers, row * each, max_length, contents)
        if made is None:
            dropped.append((row, longest))
            continue
        for place, parts in enumerate(made):
            long = place >= answers and any(len(part.ids) > max_length for part in parts)
            taken, kept = (0, made[0]) if long else (place, parts)
            tokens += kept
            origin_of += [numbers[taken]] * len(kept)
            shortened += [len(own[taken].ids) - sum(len(part.ids) for part in kept)] * len(kept)
    return Fitted(
        documents=Documents.of(tokens, offsets_of(np.array([len(part.ids) for part in tokens], np.int64))),
        origin=np.array(origin_of, np.int64),
        shortened=np.array(shortened, np.int32),
        dropped=dropped,
    )


def too_long(
    dropped: NDArray[np.int64], files: Sequence[str], max_length: int, context: int | None, *, plain: bool
) -> BadData:
    """The error of ``overlong: reject`` for all rows in ``dropped`` (int64 [rows, 2]: row, tokens).

    ``files``: each row's file; ``context``: most tokens that the base reads at once, None if not known; ``plain``:
    whether the rows are texts, which can be split and not truncated.
    """
    other = "split" if plain else "truncate"
    rows = sorted(zip(files, dropped[:, 0].tolist(), dropped[:, 1].tolist(), strict=True))
    file, row, tokens = max(rows, key=lambda each: each[2])
    of = f" of {file}" if len({*files}) > 1 else ""
    return BadData(
        f"{len(rows)} {'example is' if len(rows) == 1 else 'examples are'} longer than {max_length} tokens; "
        f"the longest, row {row}{of}, has {tokens}",
        where=_places(rows[:_NAMED]) + (" …" if len(rows) > _NAMED else ""),
        remedy=f"Shorten them, {longer_windows(max_length, context)}or set packing.overlong to {other} or drop.",
    )


def _places(rows: Sequence[tuple[str, int, int]]) -> str:
    """The rows, file by file: ``rows 3, 4 of a.jsonl, row 1 of b.jsonl``."""
    named = []
    for file, of_file in itertools.groupby(rows, key=lambda each: each[0]):
        numbers = [str(row) for _, row, _ in of_file]
        named.append(f"{'row' if len(numbers) == 1 else 'rows'} {', '.join(numbers)} of {file}")
    return ", ".join(named)


def longer_windows(max_length: int, context: int | None) -> str:
    """The advice to raise ``max_length``, as part of a sentence, as far as the base allows; "" if it does not."""
    if context is None:
        return "raise packing.max_length in the recipe, "
    if max_length >= context:
        return ""
    return f"raise packing.max_length in the recipe (the base reads up to {context} tokens at once), "


def _truncated(
    own: Sequence[Tokens], answers: int, first: int, max_length: int, contents: Contents
) -> list[list[Tokens]] | None:
    """A row's documents, the first of which has number ``first``, shortened alike; None if the row is left out.

    The longest of the first ``answers`` decides. A row's documents share one prompt, and must still do so afterwards:
    only shared tokens may be removed.
    """
    index = max(range(answers), key=lambda number: len(own[number].ids))
    longest, known = own[index], contents(first + index)
    keep = None if known is None else shorten(longest.learned, known, max_length)
    if keep is None:
        return None
    if len(own) == 1:
        return [[longest.taken(keep)]]
    shared = min(_shared(longest, document) for document in own)
    if not keep[shared:].all():
        return None
    return [
        [document.taken(np.concatenate([keep[:shared], np.ones(len(document.ids) - shared, np.bool_)]))]
        for document in own
    ]


def _shared(one: Tokens, other: Tokens) -> int:
    """Length of the prefix that two documents share before either learns something."""
    length = min(len(one.ids), len(other.ids))
    differs = (one.ids[:length] != other.ids[:length]) | one.learned[:length] | other.learned[:length]
    return int(np.argmax(differs)) if differs.any() else length


def _split(document: Tokens, max_length: int) -> Iterator[Tokens]:
    for start, end in itertools.pairwise(pieces(len(document.ids), max_length).tolist()):
        piece = document.taken(slice(start, end))
        # Nothing in its piece predicts the first token.
        learned = piece.learned.copy()
        learned[0] = False
        yield Tokens(ids=piece.ids, learned=learned, control=piece.control)
