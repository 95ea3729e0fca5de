"""Lines of JSON to examples and bad rows, one row after another: the reference that the fast path must equal."""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.settings.catalogue.forms import GUESSED
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.workers.datasets.columns import EXAMPLES, TURN, WEIGHT, with_weight
from ft_assets.workers.datasets.forms.bad_rows import BadRows
from ft_assets.workers.datasets.forms.convert import Converted, convert
from ft_assets.workers.datasets.forms.decode import decode_line
from ft_assets.workers.datasets.forms.fast import Plain, read_plain
from ft_assets.workers.datasets.forms.reasons import NAME, RowProblem
from ft_assets.workers.datasets.forms.turns import Turn

MAX_UNUSED = 50
OTHER_FIELDS = "(other fields)"
# Lines that are read together: a chunk may have millions of short ones, and a line takes hundreds of bytes meanwhile.
_LINES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """What was in a chunk of lines.

    Args:
        examples: in EXAMPLES, with WEIGHT if the form says so; ``row`` counts lines from 1.
        bad: the first rows of each reason that cannot be used, in BAD_ROWS.
        bad_rows: number of rows that cannot be used, by reason.
        rows: number of lines that were not blank.
        forms: number of examples by form.
        unused: number of examples by unused field; names that are not plain words are counted as one.
        normalized: number of examples with a text that ``clean`` changed.
        unanswered: number of examples without the row's last turn, which was the user's.
    """

    examples: pa.RecordBatch
    bad: pa.RecordBatch
    bad_rows: dict[str, int]
    rows: int
    forms: dict[str, int]
    unused: dict[str, int]
    normalized: int
    unanswered: int


def notes_of_parsed(parsed: Parsed) -> dict[str, Any]:
    """Everything in ``parsed`` but the examples, as JSON."""
    return {
        "rows": parsed.rows,
        "forms": parsed.forms,
        "unused": parsed.unused,
        "normalized": parsed.normalized,
        "unanswered": parsed.unanswered,
        "bad": parsed.bad.to_pylist(),
        "bad_rows": parsed.bad_rows,
    }


def parse_lines(lines: bytes, form: FormSettings, *, ended: bool) -> Parsed:
    """The examples in ``lines``, one JSON object per line.

    Args:
        lines: whole lines; only the last may lack its line feed.
        form: how rows are read.
        ended: whether the last line must end in a line end; without one, the file may have been truncated there.
    """
    rows, batches = _Rows(), []
    for first, pieces, last in _line_groups(lines):
        with _without_collections():
            plain = (
                read_plain(pieces, form) if form.form in ("auto", *GUESSED) else Plain(left=list(range(len(pieces))))
            )
            rest = _read_rows(pieces, plain.left, form, rows, first=first, ended=ended or not last)
        rows.forms += plain.forms
        rows.unused += plain.unused
        rows.normalized += plain.normalized
        batches.append(_in_order([_moved(batch, first) for batch in plain.examples], rest))
    return _parsed(rows, pa.concat_batches(batches) if len(batches) > 1 else batches[0])


def _line_groups(lines: bytes) -> Iterator[tuple[int, list[bytes], bool]]:
    """(lines before, lines without their line feeds, whether they are the last) of _LINES lines each."""
    first, rest = 0, lines
    while True:
        *pieces, rest = rest.split(b"\n", _LINES)
        if len(pieces) < _LINES:
            yield first, [*pieces, rest], True
            return
        yield first, pieces, False
        first += _LINES


def _moved(batch: pa.RecordBatch, lines: int) -> pa.RecordBatch:
    """``batch`` with row numbers raised by ``lines``."""
    return batch.set_column(0, batch.schema.field(0), pc.add(batch.column("row"), lines)) if lines else batch


def _in_order(plain: list[pa.RecordBatch], rest: pa.RecordBatch) -> pa.RecordBatch:
    batches = [*plain, rest] if rest.num_rows or not plain else plain
    if len(batches) == 1:
        return batches[0]
    examples = pa.concat_batches(batches)
    return examples.take(pa.array(np.argsort(examples.column("row").to_numpy())))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Garbage collection is off while inside: it would double the time, and rows are many containers without cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def parse_slowly(lines: bytes, form: FormSettings, *, ended: bool) -> Parsed:
    """``parse_lines``, row by row in Python."""
    pieces, rows = lines.split(b"\n"), _Rows()
    examples = _read_rows(pieces, range(len(pieces)), form, rows, first=0, ended=ended)
    return _parsed(rows, examples)


@dataclass(kw_only=True, slots=True)
class _Rows:
    """What was counted in the rows so far, and the bad ones."""

    bad: BadRows = field(default_factory=BadRows)
    forms: Counter[str] = field(default_factory=Counter)
    unused: Counter[str] = field(default_factory=Counter)
    normalized: int = 0
    unanswered: int = 0


def _read_rows(
    pieces: Sequence[bytes], places: Iterable[int], form: FormSettings, rows: _Rows, *, first: int, ended: bool
) -> pa.RecordBatch:
    """The examples in the ``pieces`` at ``places`` (0-based), read by the reference path and counted in ``rows``.

    ``first`` is the number of lines before; ``ended``: whether the last piece had its line end, or needs none.
    """
    numbers: list[int] = []
    kept: list[Converted] = []
    for place in places:
        line = pieces[place]
        if not line.strip():
            continue
        try:
            kept.append(convert(decode_line(line, ended=ended or place < len(pieces) - 1), form))
            numbers.append(first + place + 1)
        except RowProblem as problem:
            rows.bad.add(first + place + 1, problem)
    rows.forms.update(row.form for row in kept)
    rows.unused.update(name for row in kept for name in row.unused)
    rows.normalized += sum(row.changed for row in kept)
    rows.unanswered += sum(row.unanswered for row in kept)
    return to_examples(numbers, kept, form)


def _parsed(rows: _Rows, examples: pa.RecordBatch) -> Parsed:
    return Parsed(
        examples=examples,
        bad=rows.bad.listed(),
        bad_rows=dict(sorted(rows.bad.counts.items())),
        rows=examples.num_rows + rows.bad.counts.total(),
        forms=dict(sorted(rows.forms.items())),
        unused=_listed(rows.unused),
        normalized=rows.normalized,
        unanswered=rows.unanswered,
    )


def to_examples(numbers: Sequence[int], rows: Sequence[Converted], form: FormSettings) -> pa.RecordBatch:
    """``rows`` as a batch in EXAMPLES, ``numbers`` their row numbers."""
    columns = {
        "row": pa.array(numbers, pa.int64()),
        "messages": to_turns([row.messages for row in rows]),
        "chosen": to_turns([row.chosen for row in rows]),
        "rejected": to_turns([row.rejected for row in rows]),
        "text": pa.array([row.text for row in rows], pa.string()),
        "tools": pa.array([row.tools for row in rows], pa.string()),
        "group": pa.array([row.group for row in rows], pa.string()),
        "kind": pa.array([row.kind for row in rows], pa.string()),
        "page": pa.array([row.page for row in rows], pa.int32()),
        WEIGHT.name: pa.array([row.weight for row in rows], pa.float64()),
    }
    schema = with_weight(EXAMPLES, weighed=form.weight is not None)
    return pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names}, schema=schema)


def to_turns(conversations: Sequence[Sequence[Turn]]) -> pa.ListArray:
    """Lists of TURN, without nulls."""
    offsets = np.zeros(len(conversations) + 1, np.int32)
    np.cumsum([len(turns) for turns in conversations], out=offsets[1:])
    parts = list(zip(*(turn for turns in conversations for turn in turns), strict=True)) or [()] * len(TURN)
    arrays = [pa.array(part, pa.string()) for part in parts]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(arrays, fields=list(TURN)))


def _listed(unused: Counter[str]) -> dict[str, int]:
    """The fields in ``unused``; names that may be row text, and the rarer ones past the first 50, count as one."""
    named = sorted((name for name in unused if NAME.fullmatch(name)), key=lambda name: (-unused[name], name))
    kept = {name: unused[name] for name in sorted(named[:MAX_UNUSED])}
    others = unused.total() - sum(kept.values())
    return {**kept, OTHER_FIELDS: others} if others else kept
