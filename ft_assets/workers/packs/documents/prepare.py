"""From rows of a dataset to documents: render, encode, label, and apply the policy on length. Pure, for processes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ft_assets.datasets.forms.turns import to_messages
from ft_assets.packs.documents.assembly import Documents
from ft_assets.packs.documents.chats import ChatLabeller, Labelled, Row
from ft_assets.packs.documents.conversations import conversations, pairs
from ft_assets.packs.documents.fitting import Overlong, fit, too_long
from ft_assets.packs.documents.labels import Learn
from ft_assets.packs.documents.texts import TextLabeller
from ft_assets.packs.encoding.choice import Engine, open_encoder
from ft_assets.packs.encoding.tokenizer import ChatTokenizer
from ft_assets.packs.templates.tracing import Tracer
from ft_assets.packs.templates.variants import load_template, training_variant
from ft_resources.errors import BadData

__all__ = ["Form", "PrepareSettings", "Prepared", "Preparer", "too_long"]

Form = Literal["chat", "text", "preference"]
_SIDES = ("chosen", "rejected")


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
        encoder: the engine that was chosen for the data (``encoding.choice``).
        skeletons: whether rows of one shape may share a rendering (``chats.SkeletonDiffers`` says when not).
    """

    folder: Path
    chat_template: str | None
    form: Form
    learn: Learn
    max_length: int
    overlong: Overlong
    encoder: Engine = "tokenizers"
    skeletons: bool = True


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
            too: whoever collects the batches names them all in one error (``fitting.too_long``).
        trimmed: rows in which the template left out white space around a message.
        spelled: int64 [spelled], rows of the upload in which a message or text spells a control token.
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
    trimmed: int
    spelled: NDArray[np.int64]


class Preparer:
    """Turns rows into documents by one template, tokenizer and policy.

    Raises BadBase for a base that cannot be packed for.
    """

    def __init__(self, settings: PrepareSettings) -> None:
        self.settings = settings
        tokenizer = ChatTokenizer.load(settings.folder)
        encoder = open_encoder(tokenizer, settings.encoder)
        self._tokenizer = tokenizer
        if settings.form == "text":
            self._texts = TextLabeller(tokenizer, encoder)
            return
        template = load_template(settings.folder, tokenizer, settings.chat_template)
        tracer = Tracer(
            template=template,
            variant=training_variant(template),
            controls=tokenizer.template_tokens,
            learn=settings.learn,
            end_of_turn=template.end_of_turn(),
        )
        self._chats = ChatLabeller(tracer, tokenizer, encoder, by_row=not settings.skeletons)

    def prepare(self, batch: pa.RecordBatch) -> Prepared:
        """The documents of ``batch``: equal rows give equal documents, whatever is beside them.

        Raises BadData that names the row for a conversation that the template refuses or does not show all of, and
        for one with nothing to learn; SkeletonDiffers as ``ChatLabeller.label`` does.
        """
        each = 2 if self.settings.form == "preference" else 1
        labelled = self._label(batch)
        rows = np.asarray(batch.column("row")).astype(np.int64)
        _require_learned(labelled.documents, rows, each)
        fitted = fit(
            labelled.documents,
            each,
            self.settings.max_length,
            self.settings.overlong,
            lambda number: self._contents(batch, labelled.documents, number),
        )
        edges = fitted.documents.offsets
        controls = labelled.controls[fitted.origin]
        if len(edges) - 1 > len(labelled.controls):
            # Pieces of a text have those that fell to them.
            counted = np.concatenate([[0], np.cumsum(fitted.documents.tokens.control)])
            controls = (counted[edges[1:]] - counted[edges[:-1]]).astype(np.int32)
        return Prepared(
            input_ids=fitted.documents.tokens.ids,
            learned=fitted.documents.tokens.learned,
            offsets=edges,
            example=fitted.origin // each,
            controls=controls,
            shortened=fitted.shortened,
            ids=np.frombuffer(bytes.fromhex("".join(batch.column("id").to_pylist())), np.uint8).reshape(-1, 32),
            rows=rows,
            dropped=np.array([(rows[row], tokens) for row, tokens in fitted.dropped], np.int64).reshape(-1, 2),
            trimmed=int(labelled.trimmed.reshape(-1, each).any(axis=1).sum()),
            spelled=rows[labelled.spelled.reshape(-1, each).any(axis=1)],
        )

    def _label(self, batch: pa.RecordBatch) -> Labelled:
        if self.settings.form == "text":
            texts = batch.column("text").to_pylist()
            documents = self._texts.label(texts, lambda number: _where(batch, number))
            return Labelled(
                documents=documents,
                controls=np.full(batch.num_rows, self._texts.controls, np.int32),
                trimmed=np.zeros(batch.num_rows, np.bool_),
                spelled=np.array([self._tokenizer.spells(text) for text in texts], np.bool_),
            )
        chats = pairs(batch) if self.settings.form == "preference" else conversations(batch)
        return self._chats.label(chats, lambda number: self._row(batch, number))

    def _contents(self, batch: pa.RecordBatch, documents: Documents, number: int) -> NDArray[np.int8] | None:
        if self.settings.form == "text":
            return None
        return self._chats.contents(documents.document(number), self._row(batch, number))

    def _row(self, batch: pa.RecordBatch, number: int) -> Row:
        if self.settings.form == "preference":
            return _row(batch, number // 2, _SIDES[number % 2])
        return _row(batch, number, None)


def _row(batch: pa.RecordBatch, number: int, side: str | None) -> Row:
    (row,) = batch.slice(number, 1).to_pylist()
    messages = to_messages([*row["messages"], *(row[side] if side else ())])
    tools = json.loads(row["tools"]) if row.get("tools") else None
    return Row(messages=messages, tools=tools, prompt=len(row["messages"]) if side else 0, where=_where(batch, number))


def _where(batch: pa.RecordBatch, number: int) -> str:
    return f"row {batch.column('row')[number]} of the upload"


def _require_learned(documents: Documents, rows: NDArray[np.int64], each: int) -> None:
    # The first token of a document has nothing before it to be predicted from.
    predicted = documents.tokens.learned.copy()
    edges = documents.offsets
    predicted[edges[:-1][edges[:-1] < edges[1:]]] = False
    counted = np.concatenate([np.zeros(1, np.int64), np.cumsum(predicted)])
    nothing = np.flatnonzero(counted[edges[1:]] == counted[edges[:-1]])
    if len(nothing):
        raise BadData(
            "there is nothing to learn in this row: the template shows no assistant text",
            where=f"row {rows[nothing[0] // each]} of the upload",
            remedy="Give the conversation an assistant message, or correct the recipe's chat_template.",
        )
