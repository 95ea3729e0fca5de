"""The interface of every engine: segments of text in, ids and learned flags out."""

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.templates.rendering import Span


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """Encoded texts, concatenated.

    Args:
        ids: int32 [tokens].
        learned: bool [tokens]; a token is learned if it overlaps a learned span of characters, even partly.
        offsets: int64 [texts + 1]; text ``i`` has the tokens ``offsets[i] .. offsets[i + 1]``.
    """

    ids: NDArray[np.int32]
    learned: NDArray[np.bool_]
    offsets: NDArray[np.int64]

    def pairs(self) -> list[tuple[NDArray[np.int32], NDArray[np.bool_]]]:
        """Ids and flags of each text."""
        edges = itertools.pairwise(self.offsets.tolist())
        return [(self.ids[start:end], self.learned[start:end]) for start, end in edges]


class Encoder(Protocol):
    """An engine. A segment is text between two control tokens; nothing in it is encoded as one."""

    def encode(
        self, segments: Sequence[str], learned: Sequence[Sequence[Span]], opening: Collection[int] = ()
    ) -> Encoded:
        """Ids of each segment, equal to its ids in its document.

        Args:
            learned: the learned spans of each segment's characters, in order and disjoint.
            opening: numbers of the segments that begin a document (some tokenizers add a leading space only to them).

        Raises UnicodeEncodeError for text that has no UTF-8 form (a lone surrogate).
        """
        ...


def concatenated(parts: Iterable[tuple[NDArray[np.int32], NDArray[np.bool_]]]) -> Encoded:
    """Ids and flags of single texts, concatenated."""
    pairs = list(parts)
    lengths = np.fromiter((len(ids) for ids, _ in pairs), np.int64, len(pairs))
    return Encoded(
        ids=np.concatenate([np.empty(0, np.int32), *(ids for ids, _ in pairs)]),
        learned=np.concatenate([np.empty(0, np.bool_), *(learned for _, learned in pairs)]),
        offsets=offsets_of(lengths),
    )


def has_utf8(text: str) -> bool:
    """Whether a text has a UTF-8 form; one with a lone surrogate has not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
