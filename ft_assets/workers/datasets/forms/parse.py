"""Lines of JSON to examples and bad rows, one row after another: the reference that the fast path must equal."""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ft_assets.settings.catalogue.forms import GUESSED
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.workers.datasets.columns import BAD_ROWS, EXAMPLES, TURN, WEIGHT, with_weight
from ft_assets.workers.datasets.forms.convert import Converted, convert
from ft_assets.workers.datasets.forms.decode import decode_line
from ft_assets.workers.datasets.forms.fast import Plain, read_plain
from ft_assets.workers.datasets.forms.reasons import NAME, RowProblem
from ft_assets.workers.datasets.forms.turns import Turn

MAX_UNUSED = 50
OTHER_FIELDS = "(other fields)"


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """What was in a chunk of lines.

    Args:
        examples: in EXAMPLES, with WEIGHT if the form says so; ``row`` counts lines from 1.
        bad: rows that cannot be used, in BAD_ROWS.
        rows: number of lines that were not blank.
        forms: number of examples by form.
        unused: number of examples by unused field; names that are not plain words are counted as one.
        normalized: number of examples with a text that ``clean`` changed.
    """

    examples: pa.RecordBatch
    bad: pa.RecordBatch
    rows: int
    forms: dict[str, int]
    unused: dict[str, int]
    normalized: int


def notes_of_parsed(parsed: Parsed) -> dict[str, Any]:
    """Everything in ``parsed`` but the examples, as JSON."""
    return {
        "rows": parsed.rows,
        "forms": parsed.forms,
        "unused": parsed.unused,
        "normalized": parsed.normalized,
        "bad": parsed.bad.to_pylist(),
    }


def parse_lines(lines: bytes, form: FormSettings, *, ended: bool) -> Parsed:
    """The examples in ``lines``, one JSON object per line.

    Args:
        lines: whole lines; only the last may lack its line feed.
        form: how rows are read.
        ended: whether the last line must end in a line end; without one, the file may have been truncated there.
    """
    pieces = lines.split(b"\n")
    with _without_collections():
        plain = read_plain(pieces, form) if form.form in ("auto", *GUESSED) else Plain(left=list(range(len(pieces))))
        rest = _read_rows(pieces, plain.left, form, ended=ended)
        batches = plain.examples
        if rest.kept or not batches:
            batches = [*batches, to_examples(rest.numbers, rest.kept, form)]
    examples = batches[0]
    if len(batches) > 1:
        examples = pa.concat_batches(batches)
        examples = examples.take(pa.array(np.argsort(examples.column("row").to_numpy())))
    return _parsed(rest, examples, plain.forms, plain.unused, plain.normalized)


@contextmanager
def _without_collections() -> Iterator[None]:
    """No search for garbage meanwhile: it would double the time, and rows are many containers without cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def parse_slowly(lines: bytes, form: FormSettings, *, ended: bool) -> Parsed:
    """``parse_lines``, row by row in Python."""
    pieces = lines.split(b"\n")
    rows = _read_rows(pieces, range(len(pieces)), form, ended=ended)
    return _parsed(rows, to_examples(rows.numbers, rows.kept, form), Counter(), Counter(), 0)


@dataclass(kw_only=True, slots=True)
class _Rows:
    """Rows as read by the reference path; ``numbers`` are the row numbers of the kept ones."""

    numbers: list[int] = field(default_factory=list)
    kept: list[Converted] = field(default_factory=list)
    bad: list[dict[str, object]] = field(default_factory=list)


def _read_rows(pieces: Sequence[bytes], places: Iterable[int], form: FormSettings, *, ended: bool) -> _Rows:
    """The rows in the ``pieces`` at ``places`` (0-based)."""
    rows = _Rows()
    for place in places:
        line = pieces[place]
        if not line.strip():
            continue
        try:
            rows.kept.append(convert(decode_line(line, ended=ended or place < len(pieces) - 1), form))
            rows.numbers.append(place + 1)
        except RowProblem as bad:
            words = {"reason": bad.reason.value, "field": bad.field, "problem": bad.problem}
            rows.bad.append({"row": place + 1, **words})
    return rows


def _parsed(
    rows: _Rows, examples: pa.RecordBatch, forms: Counter[str], unused: Counter[str], normalized: int
) -> Parsed:
    """The result for ``rows`` together with the counts of rows that were read elsewhere."""
    forms = forms + Counter(row.form for row in rows.kept)
    unused = unused + Counter(name for row in rows.kept for name in row.unused)
    return Parsed(
        examples=examples,
        bad=pa.RecordBatch.from_pylist(rows.bad, schema=BAD_ROWS),
        rows=examples.num_rows + len(rows.bad),
        forms=dict(sorted(forms.items())),
        unused=_listed(unused),
        normalized=normalized + sum(row.changed for row in rows.kept),
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
