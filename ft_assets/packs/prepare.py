"""From rows of a dataset to documents: render, encode, label, and apply the policy on length. Pure, for processes."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ft_assets.datasets.forms.turns import to_messages
from ft_assets.packs.labels import Learn, learned_spans
from ft_assets.packs.packing import pieces, shorten
from ft_assets.packs.template import Rendering, Span
from ft_assets.packs.tokenizer import ChatTokenizer, load_template
from ft_resources.errors import BadBase, BadData

Form = Literal["chat", "text", "preference"]
Overlong = Literal["reject", "drop", "truncate", "split"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareSettings:
    """What decides the documents of a row.

    Args:
        folder: the base's tokenizer files.
        chat_template: the Jinja text to use in place of the base's template.
        form: what the rows are; see docs/packs.md.
        learn: every turn of the assistant, or only the last.
        max_length: tokens that a document may have.
        overlong: what becomes of a document with more.
    """

    folder: Path
    chat_template: str | None
    form: Form
    learn: Learn
    max_length: int
    overlong: Overlong


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """The documents of a batch of rows, in the order of the rows.

    Args:
        input_ids: int32 [tokens], documents one behind the other.
        learned: bool [tokens].
        offsets: int64 [documents + 1].
        example: int64 [documents], the row of the batch that a document comes from.
        controls: int32 [documents], control tokens that the template itself wrote.
        shortened: int32 [documents], tokens cut away by ``truncate``.
        ids: uint8 [rows, 32], the rows' ids.
        rows: int64 [rows], their rows in the upload.
        dropped: int64 [dropped, 2], row of the upload and tokens of what is too long and left out. Under ``reject``,
            too: whoever collects the batches names them all in one error.
    """

    input_ids: NDArray[np.int32]
    learned: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    example: NDArray[np.int64]
    controls: NDArray[np.int32]
    shortened: NDArray[np.int32]
    ids: NDArray[np.uint8]
    rows: NDArray[np.int64]
    dropped: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Document:
    """One document before the policy on length: ``control`` flags the control tokens, bool [tokens]."""

    ids: NDArray[np.int32]
    learned: NDArray[np.bool_]
    control: NDArray[np.bool_]
    controls: int


class Preparer:
    """Turns rows into documents by one template, tokenizer and policy."""

    def __init__(self, settings: PrepareSettings) -> None:
        self.settings = settings
        self._tokenizer = ChatTokenizer.load(settings.folder)
        self._control_ids = np.array(sorted(self._tokenizer.control_ids), np.int32)
        if settings.form == "text":
            self._before, self._behind = _text_edges(self._tokenizer)
        else:
            self._template = load_template(settings.folder, self._tokenizer, settings.chat_template)
            self._end_of_turn = self._template.end_of_turn()

    def prepare(self, batch: pa.RecordBatch) -> Prepared:
        """The documents of ``batch``: equal rows give equal documents, whatever is beside them.

        Raises BadData that names the row for a conversation that the template refuses or that has nothing to learn.
        """
        rows = batch.to_pylist()
        if self.settings.form == "text":
            documents = [[document] for document in self._texts(rows)]
        elif self.settings.form == "chat":
            traced = [self._trace(row, row["messages"]) for row in rows]
            documents = [[document] for document in self._encode(rows, traced)]
        else:
            sides = [self._trace(row, row["messages"], row[side]) for row in rows for side in ("chosen", "rejected")]
            both = self._encode([row for row in rows for _ in range(2)], sides)
            documents = [both[index : index + 2] for index in range(0, len(both), 2)]
        return self._collect(rows, documents)

    def _trace(
        self, row: Mapping[str, Any], turns: Sequence[Mapping[str, Any]], answer: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[Rendering, list[Span]]:
        """A conversation's rendering and what is learned of it: of ``answer`` alone where there is one."""
        where = _where(row)
        messages = to_messages([*turns, *answer])
        tools = json.loads(row["tools"]) if row.get("tools") else None
        rendering = self._template.trace(messages, where=where, tools=tools)
        if answer:
            prompt = self._template.render(messages[: len(turns)], where=where, tools=tools)
            if not rendering.text.startswith(prompt):
                raise BadBase(
                    "the chat template writes the prompt otherwise once an answer follows",
                    where=where,
                    remedy="Name another template in the recipe's chat_template.",
                )
            rendering = Rendering(
                text=rendering.text,
                turns=[turn for turn in rendering.turns if turn[0] >= len(prompt)],
                quoted=rendering.quoted,
            )
        learned = learned_spans(
            rendering,
            self._tokenizer.template_tokens(rendering),
            learn=self.settings.learn,
            end_of_turn=self._end_of_turn,
            marked=self._template.marked,
        )
        return rendering, learned

    def _encode(
        self, rows: Sequence[Mapping[str, Any]], traced: Sequence[tuple[Rendering, list[Span]]]
    ) -> list[_Document]:
        encoded = self._tokenizer.encode([rendering for rendering, _ in traced], [spans for _, spans in traced])
        documents = []
        for row, tokens, (rendering, _) in zip(rows, encoded, traced, strict=True):
            # The first token of a document has nothing before it to be predicted from.
            if not tokens.learned[1:].any():
                raise BadData(
                    "there is nothing to learn in this row: the template shows no assistant text",
                    where=_where(row),
                    remedy="Give the conversation an assistant message, or correct the recipe's chat_template.",
                )
            documents.append(
                _Document(
                    ids=tokens.ids,
                    learned=tokens.learned,
                    control=np.isin(tokens.ids, self._control_ids),
                    controls=self._tokenizer.count_control(rendering),
                )
            )
        return documents

    def _texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[_Document]:
        texts = [row["text"] for row in rows]
        # A control token that a text spells is text.
        renderings = [
            Rendering(text=text, turns=[], quoted=[found.span() for found in self._tokenizer.control.finditer(text)])
            for text in texts
        ]
        for row, tokens in zip(rows, self._tokenizer.encode(renderings, [[] for _ in texts]), strict=True):
            ids = np.array([*self._before, *tokens.ids, *self._behind], np.int32)
            if len(ids) < 2:
                raise BadData("there is nothing to learn in this row", where=_where(row), remedy="Remove it.")
            control = np.zeros(len(ids), np.bool_)
            control[: len(self._before)] = True
            control[len(ids) - len(self._behind) :] = True
            learned = np.ones(len(ids), np.bool_)
            learned[0] = False
            yield _Document(ids=ids, learned=learned, control=control, controls=int(control.sum()))

    def _collect(self, rows: Sequence[Mapping[str, Any]], documents: Sequence[Sequence[_Document]]) -> Prepared:
        ids: list[NDArray[np.int32]] = []
        learned: list[NDArray[np.bool_]] = []
        facts: list[tuple[int, int, int]] = []
        dropped: list[tuple[int, int]] = []
        for number, (row, own) in enumerate(zip(rows, documents, strict=True)):
            longest = max(len(document.ids) for document in own)
            fitted = self._fit(own) if longest > self.settings.max_length else [(each, 0) for each in own]
            if fitted is None:
                dropped.append((row["row"], longest))
                continue
            for document, cut in fitted:
                ids.append(document.ids)
                learned.append(document.learned)
                facts.append((number, document.controls, cut))
        lengths = [len(each) for each in ids]
        table = np.array(facts, np.int64).reshape(-1, 3)
        return Prepared(
            input_ids=np.concatenate([np.empty(0, np.int32), *ids]),
            learned=np.concatenate([np.empty(0, np.bool_), *learned]),
            offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
            example=table[:, 0].copy(),
            controls=table[:, 1].astype(np.int32),
            shortened=table[:, 2].astype(np.int32),
            ids=np.frombuffer(bytes.fromhex("".join(row["id"] for row in rows)), np.uint8).reshape(-1, 32),
            rows=np.array([row["row"] for row in rows], np.int64),
            dropped=np.array(dropped, np.int64).reshape(-1, 2),
        )

    def _fit(self, documents: Sequence[_Document]) -> list[tuple[_Document, int]] | None:
        """The documents of one row at most ``max_length`` long, each with what it lost; None to leave the row out."""
        limit = self.settings.max_length
        if self.settings.overlong == "split" and self.settings.form == "text":
            return [(piece, 0) for document in documents for piece in _split(document, limit)]
        if self.settings.overlong != "truncate":
            return None
        fitted = []
        for document in documents:
            keep = shorten(document.learned, document.control, limit)
            if keep is None:
                return None
            fitted.append(
                (
                    _Document(
                        ids=document.ids[keep],
                        learned=document.learned[keep],
                        control=document.control[keep],
                        controls=document.controls,
                    ),
                    int(len(keep) - keep.sum()),
                )
            )
        return fitted


def too_long(dropped: NDArray[np.int64], max_length: int) -> BadData:
    """The error of ``overlong: reject`` for all rows that ``dropped`` (int64 [rows, 2]: row, tokens) names."""
    rows = sorted(int(row) for row, _ in dropped)
    shown = ", ".join(str(row) for row in rows[:10]) + (" …" if len(rows) > 10 else "")
    row, tokens = max(dropped.tolist(), key=lambda each: (each[1], -each[0]))
    return BadData(
        f"{len(rows)} {'example is' if len(rows) == 1 else 'examples are'} longer than {max_length} tokens; "
        f"the longest, row {row}, has {tokens}",
        where=f"row {shown} of the upload" if len(rows) == 1 else f"rows {shown} of the upload",
        remedy="Shorten them, raise packing.max_length in the recipe, or set packing.overlong to drop.",
    )


def _where(row: Mapping[str, Any]) -> str:
    return f"row {row['row']} of the upload"


def _split(document: _Document, limit: int) -> Iterator[_Document]:
    edges = pieces(len(document.ids), limit).tolist()
    for start, end in itertools.pairwise(edges):
        # Within its piece, the first token has nothing before it to be predicted from.
        learned = document.learned[start:end].copy()
        learned[0] = False
        yield _Document(
            ids=document.ids[start:end],
            learned=learned,
            control=document.control[start:end],
            controls=int(document.control[start:end].sum()),
        )


def _text_edges(tokenizer: ChatTokenizer) -> tuple[list[int], list[int]]:
    """The tokens before and behind a text: beginning-of-text where the tokenizer adds one, and end-of-text."""
    end = tokenizer.token_id("eos_token")
    if end is None:
        raise BadBase(
            "the tokenizer names no end-of-text token, so a model would not learn where a text ends",
            where="tokenizer_config.json",
            remedy="Take a base whose tokenizer_config.json has an eos_token.",
        )
    beginning = tokenizer.token_id("bos_token")
    added = tokenizer.tokenizer.encode("a", add_special_tokens=True).ids[:1]
    return ([beginning] if beginning is not None and added == [beginning] else []), [end]
