"""The packed tokens beside a second, slow and plain way to make them: render the row, encode the whole rendering."""

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ft_assets.datasets.forms.turns import to_messages
from ft_assets.packs.doctor.chunks import Chunk, chunk
from ft_assets.packs.documents.examples import read_batches
from ft_assets.packs.encoding.tokenizer import ChatTokenizer
from ft_assets.packs.format import Pack, Spool
from ft_assets.packs.templates.template import ChatTemplate, Rendering

COMPARED = 200
# Shorter texts ("yes", "2") may stand in an answer by themselves.
_TELLING = 12


@dataclass(frozen=True, kw_only=True)
class Second:
    """The second way.

    Args:
        tokenizer: the base's.
        reference: the template that the tokens must agree with; None for plain text.
        rows: the split of the dataset that was packed.
        last_only: whether only the last turn of the assistant is learned.
    """

    tokenizer: ChatTokenizer
    reference: ChatTemplate | None
    rows: Path
    last_only: bool

    def decoded(self, ids: list[int]) -> str:
        """The text of tokens, control tokens included, as ``_plain`` text."""
        return _plain(self.tokenizer.tokenizer.decode(ids, skip_special_tokens=False))

    def told(self, text: str) -> str:
        """``_plain`` text of what the tokenizer keeps of ``text``: some know no capitals, or not every character."""
        quoted = [found.span() for found in self.tokenizer.control.finditer(text)]
        return self.decoded(
            self.tokenizer.encode([Rendering(text=text, turns=[], quoted=quoted)], [[]])[0].ids.tolist()
        )

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


def compare(pack: Pack, second: Second, spool: Spool) -> dict[str, str | None]:
    """What is wrong with ``COMPARED`` documents or more, spread over the pack, by name of the check; None for nothing.

    ``template_is_the_base_s``: the first document whose tokens differ from the second way's.
    ``answers_are_learned``: the first that does not learn the assistant's text, or learns what somebody else said.
    """
    wanted: dict[str, list[tuple[Chunk, int]]] = {}
    windows = spread(len(pack), COMPARED)
    for window in windows:
        view = chunk(pack, range(window, window + 1))
        for document in spread(len(view.lengths), -(-COMPARED // len(windows))):
            wanted.setdefault(pack.example_id(int(view.examples[document])), []).append((view, document))
    problems: dict[str, str | None] = {"template_is_the_base_s": None, "answers_are_learned": None}
    for batch in read_batches(second.rows):
        for row in batch.filter(pc.is_in(batch["id"], pa.array(list(wanted)))).to_pylist():
            for view, document in wanted[row["id"]]:
                example, piece = int(view.examples[document]), int(view.pieces[document])
                ids = view.ids[view.document(document)]
                text = second.reference is None
                if not _agrees(ids, second.ids(row, piece), spool, example, piece, text=text):
                    by = second.reference.name if second.reference else "Hugging Face's tokenizer"
                    problems["template_is_the_base_s"] = (
                        problems["template_is_the_base_s"]
                        or f"{view.name(document)} differs from its rendering by {by}"
                    )
                learned = ids[view.learned[view.document(document)]].tolist()
                wrong = None if text else _other_answer(second, learned, row, piece)
                if wrong:
                    problems["answers_are_learned"] = (
                        problems["answers_are_learned"] or f"{view.name(document)} {wrong}"
                    )
    return problems


def _other_answer(second: Second, ids: list[int], row: Mapping[str, Any], piece: int) -> str | None:
    """What is wrong with the learned tokens of a row's document, white space aside; None for nothing."""
    learned = second.decoded(ids)
    answer = row.get("rejected" if piece else "chosen") or []
    prompt, said = (row["messages"], answer) if answer else ([], row["messages"])
    answers = [turn["content"] for turn in said if turn["role"] == "assistant"]
    rest, position = "", 0
    for answer_text in answers[-1:] if second.last_only else answers:
        # Templates may drop the reasoning of earlier turns.
        content = second.told(answer_text.rpartition("</think>")[2])
        place = learned.find(content, position)
        if place < 0:
            return "does not learn all of the assistant's text"
        rest += learned[position:place] + " "
        position = place + len(content)
    rest += learned[position:]
    # An assistant may say again what it was told: in its thoughts, or as what it calls a tool with.
    own = " ".join(map(second.told, _said_beside(said)))
    for turn in [*prompt, *said]:
        content = second.told(turn["content"]) if turn["role"] != "assistant" else ""
        if len(content) >= _TELLING and rest.count(content) > own.count(content):
            return "learns text that the assistant did not write"
    return None


def _said_beside(turns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the assistant wrote beside its answers: thoughts, and its calls' arguments, whole and one by one."""
    for turn in turns:
        if turn["role"] == "assistant":
            yield turn["content"].rpartition("</think>")[0]
            for call in json.loads(turn["tool_calls"] or "[]"):
                arguments = call["function"]["arguments"]
                yield json.dumps(arguments, ensure_ascii=False)
                yield from _strings(arguments)


def _strings(value: Any) -> Iterator[str]:
    """The texts in a JSON value, keys aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _plain(text: str) -> str:
    """Text without what tokenizers and templates may change: white space, and how characters are composed."""
    return "".join(unicodedata.normalize("NFC", text).split())


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
