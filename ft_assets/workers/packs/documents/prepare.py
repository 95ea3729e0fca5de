"""Convert a dataset's rows to documents: render, encode, label, and apply the policy on length. Pure, for processes."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ft_assets.settings.catalogue.form import Form
from ft_assets.settings.catalogue.forms import FORMS, FormName
from ft_assets.workers.base_models.context import context_length
from ft_assets.workers.datasets.columns import WEIGHT
from ft_assets.workers.datasets.forms.turns import to_messages
from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.documents.chats import ChatLabeller, Labelled, Row
from ft_assets.workers.packs.documents.conversations import conversations, each_turn, pairs
from ft_assets.workers.packs.documents.examples import FIRST_PIECE
from ft_assets.workers.packs.documents.fitting import Overlong, fit
from ft_assets.workers.packs.documents.texts import TextLabeller
from ft_assets.workers.packs.format.spool import Batch
from ft_assets.workers.templates.probes import TWO_TURNS
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.templates.tracing import Learn, Tracer
from ft_assets.workers.tokenizers.chat_template import load_template, training_variant
from ft_assets.workers.tokenizers.choice import Engine, open_encoder
from ft_assets.workers.tokenizers.segments import Documents
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadData, UserError

_SIDES = ("chosen", "rejected")


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareSettings:
    """The settings that determine a row's documents.

    Args:
        folder: the base's tokenizer files.
        chat_template: Jinja text that replaces the base's template.
        form: the rows' form; see docs/explanation/packs.md.
        learn: every turn of the assistant, or only the last.
        max_length: most tokens of a document.
        overlong: the policy for a document with more.
        encoder: the engine chosen for the data (``tokenizers.choice``).
        skeletons: whether rows of one shape may share a rendering (``chats.SkeletonDiffers`` says when not).
    """

    folder: Path
    chat_template: str | None
    form: FormName
    learn: Learn
    max_length: int
    overlong: Overlong
    encoder: Engine = "tokenizers"
    skeletons: bool = True

    @property
    def context(self) -> int | None:
        """Most tokens that the base reads at once; None if its folder does not say."""
        config = self.folder / "config.json"
        return context_length(config.read_bytes() if config.exists() else None)

    def tracer(self, tokenizer: ChatTokenizer) -> Tracer:
        """The labeller of the rows, by the template in use."""
        return tracer_of(load_template(self.folder, tokenizer, self.chat_template), tokenizer, self.learn)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared(Batch):
    """The documents of a batch of rows.

    Args:
        dropped: int64 [dropped, 2], row of the upload and tokens of each row left out as too long. Also under
            ``reject``: the collector of the batches names them all in one error (``fitting.too_long``).
        dropped_files: the upload's file of each of them.
        equal: int64 [equal], rows of the upload whose two answers are the same tokens, and which are left out.
        trimmed: number of rows in which the template removed white space around a message.
        spelled: int64 [spelled], rows of the upload in which a message or text spells a control token.
        bare: number of turns whose thoughts the template drops.
        unasked: number of turns that stand behind other tokens than their prompt; they are not learned if others are.
    """

    dropped: NDArray[np.int64]
    dropped_files: tuple[str, ...]
    equal: NDArray[np.int64]
    trimmed: int
    spelled: NDArray[np.int64]
    bare: int
    unasked: int


class Preparer:
    """Converts rows to documents by one template, tokenizer and policy.

    Raises BadBase for a base that packing does not support.
    """

    def __init__(self, settings: PrepareSettings) -> None:
        self.settings, self._form, self._by_turn = settings, FORMS[settings.form], False
        tokenizer = ChatTokenizer.load(settings.folder)
        encoder = open_encoder(tokenizer, settings.encoder)
        self._tokenizer = tokenizer
        if self._form.plain:
            self._texts = TextLabeller(tokenizer, encoder)
            return
        tracer = settings.tracer(tokenizer)
        self._by_turn = learns_by_turn(tracer, self._form)
        if self._by_turn:
            tracer = replace(tracer, learn="last_assistant")
        self._chats = ChatLabeller(tracer, tokenizer, encoder, by_row=not settings.skeletons)

    def prepare(self, batch: pa.RecordBatch) -> Prepared:
        """The documents of ``batch``: equal rows give equal documents, whatever the other rows.

        Raises BadData, naming the row, for a conversation that the template refuses or renders incompletely, and for
        one with nothing to learn; SkeletonDiffers as ``ChatLabeller.label`` does.
        """
        if not self._by_turn:
            return self._prepared(batch, np.arange(batch.num_rows))
        turns, of, left_out = each_turn(batch)
        prepared = self._prepared(turns, of)
        return replace(prepared, unasked=prepared.unasked + left_out)

    def _prepared(self, batch: pa.RecordBatch, of: NDArray[np.int64]) -> Prepared:
        """The documents of ``batch``, whose rows are turns of the conversations ``of`` (int64 [rows], in order)."""
        each = self._form.documents
        labelled = self._label(batch)
        rows = np.asarray(batch.column("row")).astype(np.int64)
        # The first turn stands for its conversation.
        first = np.searchsorted(of, of)
        kept = np.unique(first)
        nothing = _learns_nothing(labelled.documents, each)
        _require_learned(rows[~np.isin(of, of[~nothing])])
        equal = _equal_answers(labelled.documents) if self._form.answers == 2 else np.zeros(len(of), np.bool_)
        left, counted = nothing | equal, np.stack([labelled.bare, labelled.unasked])
        if self._by_turn:
            left |= (labelled.unasked > 0) & np.isin(of, of[~nothing & (labelled.unasked == 0)])
        if left.any():
            others = self._prepared(batch.filter(pa.array(~left)), of[~left])
            bare, unasked = counted[:, np.repeat(left, each)].sum(axis=1).tolist()
            return replace(others, equal=rows[equal], bare=others.bare + bare, unasked=others.unasked + unasked)
        fitted = fit(
            labelled.documents,
            each,
            self._form.answers or each,
            self.settings.max_length,
            self.settings.overlong,
            lambda number: self._contents(batch, labelled.documents, number),
        )
        dropped: dict[int, int] = {}
        for row, tokens in fitted.dropped:
            dropped[int(first[row])] = max(tokens, dropped.get(int(first[row]), 0))
        gone = np.isin(first, list(dropped))
        too_long = np.array([(rows[row], tokens) for row, tokens in dropped.items()], np.int64).reshape(-1, 2)
        files = tuple(batch.column("file")[row].as_py() for row in dropped)
        if gone.sum() > len(fitted.dropped):
            # A conversation stays or goes as a whole.
            others = self._prepared(batch.filter(pa.array(~gone)), of[~gone])
            return replace(others, dropped=too_long, dropped_files=files)
        edges = fitted.documents.offsets
        controls = labelled.controls[fitted.origin]
        if len(edges) - 1 > len(labelled.controls):
            # Each piece of a text counts its own control tokens.
            tokens_before = offsets_of(fitted.documents.control)
            controls = (tokens_before[edges[1:]] - tokens_before[edges[:-1]]).astype(np.int32)
        return Prepared(
            input_ids=fitted.documents.ids,
            learned=fitted.documents.learned,
            offsets=edges,
            example=np.searchsorted(kept, first[fitted.origin // each]),
            controls=controls,
            shortened=fitted.shortened,
            ids=np.frombuffer(bytes.fromhex("".join(batch.column("id").to_pylist())), np.uint8).reshape(-1, 32)[kept],
            rows=rows[kept],
            dropped=too_long,
            dropped_files=files,
            equal=np.empty(0, np.int64),
            trimmed=len(np.unique(first[labelled.trimmed.reshape(-1, each).any(axis=1)])),
            spelled=rows[np.unique(first[labelled.spelled.reshape(-1, each).any(axis=1)])],
            bare=int(labelled.bare.sum()),
            unasked=int(labelled.unasked.sum()),
            weights=np.asarray(batch.column(WEIGHT.name))[kept] if WEIGHT.name in batch.schema.names else None,
            first_pieces=np.asarray(batch.column(FIRST_PIECE))[kept] if FIRST_PIECE in batch.schema.names else None,
        )

    def _label(self, batch: pa.RecordBatch) -> Labelled:
        if self._form.plain:
            texts = batch.column("text").to_pylist()
            documents = self._texts.label(texts, lambda number: _where(batch, number))
            return Labelled(
                documents=documents,
                controls=np.full(batch.num_rows, self._texts.controls, np.int32),
                trimmed=np.zeros(batch.num_rows, np.bool_),
                spelled=np.array([self._tokenizer.spells(text) for text in texts], np.bool_),
                bare=np.zeros(batch.num_rows, np.int32),
                unasked=np.zeros(batch.num_rows, np.int32),
            )
        chats = pairs(batch) if self._form.own_windows else conversations(batch)
        return self._chats.label(chats, lambda number: self._row(batch, number))

    def _contents(self, batch: pa.RecordBatch, documents: Documents, number: int) -> NDArray[np.int8] | None:
        if self._form.plain:
            return None
        return self._chats.contents(documents.document(number), self._row(batch, number))

    def _row(self, batch: pa.RecordBatch, number: int) -> Row:
        if self._form.own_windows:
            return _row(batch, number // 2, _SIDES[number % 2])
        return _row(batch, number, None)


def tracer_of(template: ChatTemplate, tokenizer: ChatTokenizer, learn: Learn) -> Tracer:
    """The labeller of conversations by ``template``."""
    return Tracer(
        template=template,
        variant=training_variant(template),
        controls=tokenizer.template_tokens,
        learn=learn,
        end_of_turn=template.probes.ends,
    )


def learns_by_turn(tracer: Tracer, form: Form) -> bool:
    """Whether each turn needs a document of its own, as the template shows no turn but the last as it asks for it."""
    if tracer.learn != "all_assistant" or form.answers:
        return False
    try:
        return tracer.trace(TWO_TURNS, where=f"a probe of {tracer.template.name}").unasked == 1
    except UserError:
        # The rows will show what is wrong.
        return False


def _row(batch: pa.RecordBatch, number: int, side: str | None) -> Row:
    (row,) = batch.slice(number, 1).to_pylist()
    messages = to_messages([*row["messages"], *(row[side] if side else ())])
    tools = json.loads(row["tools"]) if row.get("tools") else None
    return Row(messages=messages, tools=tools, prompt=len(row["messages"]) if side else 0, where=_where(batch, number))


def _where(batch: pa.RecordBatch, number: int) -> str:
    return f"row {batch.column('row')[number]} of the upload"


def _equal_answers(documents: Documents) -> NDArray[np.bool_]:
    """Which pairs of documents are the same tokens, bool [pairs]: templates trim white space, and drop thoughts."""
    both = ((documents.document(place), documents.document(place + 1)) for place in range(0, len(documents.lengths), 2))
    return np.array([np.array_equal(one.ids, other.ids) for one, other in both], np.bool_)


def _learns_nothing(documents: Documents, each: int) -> NDArray[np.bool_]:
    """Which rows of ``each`` documents have one without anything to learn, bool [rows]."""
    # Nothing predicts the first token of a document.
    predicted = documents.learned.copy()
    edges = documents.offsets
    predicted[edges[:-1][edges[:-1] < edges[1:]]] = False
    counted = offsets_of(predicted)
    nothing: NDArray[np.bool_] = (counted[edges[1:]] == counted[edges[:-1]]).reshape(-1, each).any(axis=1)
    return nothing


def _require_learned(without: NDArray[np.int64]) -> None:
    """Raise BadData for the first of the rows ``without`` anything to learn."""
    if len(without):
        raise BadData(
            "there is nothing to learn in this row: the template shows no assistant text",
            where=f"row {without[0]} of the upload",
            remedy="Correct the recipe's chat_template, or give the row an assistant message with text.",
        )
