"""The packed tokens beside a second, slow and plain way to make them: render the row, encode the whole rendering."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ft_assets.datasets.forms.turns import to_messages
from ft_assets.packs.doctor.chunks import chunk
from ft_assets.packs.documents.examples import read_batches
from ft_assets.packs.encoding.tokenizer import ChatTokenizer
from ft_assets.packs.format import Pack, Spool
from ft_assets.packs.templates.template import ChatTemplate, Rendering

COMPARED = 200


@dataclass(frozen=True, kw_only=True)
class Second:
    """The second way.

    Args:
        tokenizer: the base's.
        reference: the template that the tokens must agree with; None for plain text.
        rows: the split of the dataset that was packed.
    """

    tokenizer: ChatTokenizer
    reference: ChatTemplate | None
    rows: Path

    def ids(self, row: Mapping[str, Any], piece: int) -> NDArray[np.int32]:
        """The tokens of a row's document, int32 [tokens]; of a text, of all its pieces, without what stands around it.

        ``piece`` chooses between the chosen (0) and the rejected (1) answer of a preference.
        """
        if self.reference is None:
            quoted = [found.span() for found in self.tokenizer.control.finditer(row["text"])]
            rendering = Rendering(text=row["text"], turns=[], quoted=quoted)
        else:
            answer = row.get("rejected" if piece else "chosen") or []
            rendering = self.reference.trace(
                to_messages([*row["messages"], *answer]),
                where=f"row {row['row']} of the upload",
                tools=json.loads(row["tools"]) if row.get("tools") else None,
                with_turns=False,
            )
        return self.tokenizer.encode([rendering], [[]])[0].ids


def differing(pack: Pack, second: Second, spool: Spool) -> str | None:
    """The first document whose tokens differ from the second way's, of ``COMPARED`` or more that are spread over the
    pack; None where all agree."""
    wanted: dict[str, list[tuple[str, int, int, NDArray[np.int64]]]] = {}
    windows = spread(len(pack), COMPARED)
    for window in windows:
        view = chunk(pack, range(window, window + 1))
        for document in spread(len(view.lengths), -(-COMPARED // len(windows))):
            example, piece = int(view.examples[document]), int(view.pieces[document])
            found = (view.name(document), example, piece, view.ids[view.document(document)])
            wanted.setdefault(pack.example_id(example), []).append(found)
    for batch in read_batches(second.rows):
        for row in batch.filter(pc.is_in(batch["id"], pa.array(list(wanted)))).to_pylist():
            for name, example, piece, ids in wanted[row["id"]]:
                if not _agrees(ids, second.ids(row, piece), spool, example, piece, text=second.reference is None):
                    by = second.reference.name if second.reference else "Hugging Face's tokenizer"
                    return f"{name} differs from its rendering by {by}"
    return None


def spread(count: int, wanted: int) -> list[int]:
    """At most ``wanted`` of 0 .. count - 1, evenly spread."""
    return sorted({int(index) for index in np.linspace(0, count - 1, min(count, wanted))}) if count else []


def _agrees(
    ids: NDArray[np.int64], fresh: NDArray[np.int32], spool: Spool, example: int, piece: int, *, text: bool
) -> bool:
    """Whether a packed document is what the second way gives, or what the policy on length may leave of it."""
    first = int(spool.first_documents[example])
    if text:
        # What stands around a text is one token at most on each side; it is not the tokenizer's to encode.
        own = spool.first_documents[example + 1 : example + 2].tolist() or [len(spool.lengths)]
        lengths = spool.lengths[first : own[0]]
        start = int(lengths[:piece].sum())
        around = int(lengths.sum()) - len(fresh)
        whole = [np.concatenate([np.full(n, -1), fresh, np.full(around - n, -1)]) for n in range(around + 1)]
        return any(
            bool(np.all((each[start : start + len(ids)] == ids) | (each[start : start + len(ids)] == -1)))
            for each in whole
        )
    if spool.shortened[first + piece]:
        return _is_part(ids, fresh)
    return np.array_equal(ids, fresh)


def _is_part(part: Sequence[int] | NDArray[np.int64], whole: NDArray[np.int32]) -> bool:
    """Whether ``part`` is ``whole`` with some tokens left out."""
    rest = iter(whole.tolist())
    return all(token in rest for token in np.asarray(part).tolist())
