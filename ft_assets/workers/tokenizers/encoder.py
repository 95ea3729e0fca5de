"""What every engine promises: segments of text in, ids and marks of what is learned out."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ft_assets.packs.templates.template import Span


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """Encoded texts, one behind the other.

    Args:
        ids: int32 [tokens].
        learned: bool [tokens]; a token is learned if it overlaps a learned span of characters, even partly.
        offsets: int64 [texts + 1]; text ``i`` has the tokens ``offsets[i] .. offsets[i + 1]``.
    """

    ids: NDArray[np.int32]
    learned: NDArray[np.bool_]
    offsets: NDArray[np.int64]


class Encoder(Protocol):
    """An engine. A segment is text between two control tokens; nothing in it is read as one."""

    def encode(
        self, segments: Sequence[str], learned: Sequence[Sequence[Span]], opening: Collection[int] = ()
    ) -> Encoded:
        """Ids of each segment, equal to those it has in its document.

        Args:
            learned: of each segment the spans of its characters that are learned, in order and apart.
            opening: numbers of the segments with which a document begins (some tokenizers treat only them to a
                leading space).

        Raises UnicodeEncodeError for text that has no UTF-8 form (a lone surrogate).
        """
        ...


def concatenated(parts: Iterable[tuple[NDArray[np.int32], NDArray[np.bool_]]]) -> Encoded:
    """Ids and marks of single texts as one."""
    pairs = list(parts)
    lengths = np.fromiter((len(ids) for ids, _ in pairs), np.int64, len(pairs))
    return Encoded(
        ids=np.concatenate([np.empty(0, np.int32), *(ids for ids, _ in pairs)]),
        learned=np.concatenate([np.empty(0, np.bool_), *(learned for _, learned in pairs)]),
        offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
    )
