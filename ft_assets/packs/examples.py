"""From a split's Parquet file to labelled tokens: render, encode, label, and apply the policy on length."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ft_assets.datasets.forms.turns import to_messages
from ft_assets.packs.labels import Learn, learned_spans
from ft_assets.packs.template import ChatTemplate
from ft_assets.packs.tokenizer import ChatTokenizer
from ft_resources.errors import BadData

_BATCH = 512
_COLUMNS = ("id", "row", "messages", "chosen", "rejected", "text", "tools")
IGNORED = -100


@dataclass(frozen=True, kw_only=True, slots=True)
class Documents:
    """Tokenized examples, one document each, in the dataset's order.

    ``input_ids`` and ``labels`` are int32 [tokens], ``offsets`` int64 [documents + 1].
    ``example_ids`` are the dataset's ids.
    """

    input_ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    offsets: NDArray[np.int64]
    example_ids: list[str]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each document, int64 [documents]."""
        return np.diff(self.offsets)


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One row of a dataset split; ``row`` is its number in the upload, from 1."""

    id: str
    messages: list[dict[str, Any]]
    row: int

    @property
    def where(self) -> str:
        return f"row {self.row} of the upload"


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedSplit:
    """The documents of a split and what the doctor needs to judge them.

    Args:
        documents: labelled tokens, in the dataset's order.
        rows: the upload's row of each document, int64 [documents].
        control_tokens: how many control tokens the template itself wrote in each document, int64 [documents].
        dropped: rows left out because they are longer than a window.
        longest: tokens of the longest row, left out or not.
    """

    documents: Documents
    rows: NDArray[np.int64]
    control_tokens: NDArray[np.int64]
    dropped: list[int]
    longest: int


@dataclass(kw_only=True)
class Preparer:
    """Turns examples into documents by one template, tokenizer and policy."""

    template: ChatTemplate
    tokenizer: ChatTokenizer
    learn: Learn
    max_length: int
    overlong: Literal["reject", "drop"]
    end_of_turn: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.end_of_turn = self.template.end_of_turn()

    def prepare(self, path: Path, progress: Callable[[int, int], None]) -> PreparedSplit:
        """The split at ``path``; ``progress(done, total)`` is called as rows are finished.

        Raises BadData that names the row for a conversation that the template refuses, that has nothing to learn
        or, if the policy says reject, that is longer than a window.
        """
        total = pq.read_metadata(path).num_rows
        ids: list[NDArray[np.int32]] = []
        labels: list[NDArray[np.int32]] = []
        names: list[str] = []
        rows: list[int] = []
        controls: list[int] = []
        overlong: dict[int, int] = {}
        longest = done = 0
        for batch in read_examples(path):
            for example, tokens, learned, control in self._encode(batch):
                longest = max(longest, len(tokens))
                if len(tokens) > self.max_length:
                    overlong[example.row] = len(tokens)
                    continue
                ids.append(tokens)
                labels.append(np.where(learned, tokens, IGNORED).astype(np.int32))
                names.append(example.id)
                rows.append(example.row)
                controls.append(control)
            done += len(batch)
            progress(done, total)
        if overlong and self.overlong == "reject":
            raise _too_long(overlong, self.max_length)
        lengths = np.array([len(tokens) for tokens in ids], np.int64)
        documents = Documents(
            input_ids=np.concatenate([np.empty(0, np.int32), *ids]),
            labels=np.concatenate([np.empty(0, np.int32), *labels]),
            offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
            example_ids=names,
        )
        return PreparedSplit(
            documents=documents,
            rows=np.array(rows, np.int64),
            control_tokens=np.array(controls, np.int64),
            dropped=sorted(overlong),
            longest=longest,
        )

    def _encode(self, batch: list[Example]) -> Iterator[tuple[Example, NDArray[np.int32], NDArray[np.bool_], int]]:
        """For each example its ids, which of them are learned, and the template's number of control tokens."""
        renderings, spans, controls = [], [], []
        for example in batch:
            rendering = self.template.trace(example.messages, where=example.where)
            written = self.tokenizer.template_tokens(rendering)
            learned = learned_spans(
                rendering,
                written,
                learn=self.learn,
                end_of_turn=self.end_of_turn,
                marked=self.template.marked,
            )
            renderings.append(rendering)
            spans.append(learned)
            controls.append(self.tokenizer.count_control(rendering))
        encoded = self.tokenizer.encode(renderings, spans)
        for example, tokens, control in zip(batch, encoded, controls, strict=True):
            # The first token of a document has nothing before it to be predicted from.
            if not tokens.learned[1:].any():
                raise BadData(
                    "there is nothing to learn in this row: the template shows no assistant text",
                    where=example.where,
                    remedy="Give the conversation an assistant message, or correct the recipe's chat_template.",
                )
            yield example, tokens.ids, tokens.learned, control


def read_examples(path: Path) -> Iterator[list[Example]]:
    """The rows of a dataset split, in order and in batches."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_BATCH, columns=["id", "messages", "row"]):
            yield [
                Example(id=row["id"], messages=to_messages(row["messages"]), row=row["row"])
                for row in batch.to_pylist()
            ]


def read_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a dataset split as record batches, in order: ``id``, ``row`` and, as far as the file has them,
    ``messages``, ``chosen``, ``rejected``, ``text`` and ``tools``."""
    with pq.ParquetFile(path) as file:
        columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
        yield from file.iter_batches(batch_size=_BATCH, columns=columns)


def _too_long(overlong: dict[int, int], max_length: int) -> BadData:
    rows = sorted(overlong)
    shown = ", ".join(str(row) for row in rows[:10]) + (" …" if len(rows) > 10 else "")
    longest = max(overlong, key=lambda row: overlong[row])
    return BadData(
        f"{len(rows)} {'example is' if len(rows) == 1 else 'examples are'} longer than {max_length} tokens; "
        f"the longest, row {longest}, has {overlong[longest]}",
        where=f"row {shown} of the upload" if len(rows) == 1 else f"rows {shown} of the upload",
        remedy="Shorten them, raise packing.max_length in the recipe, or set packing.overlong to drop.",
    )
