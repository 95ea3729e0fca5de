"""Lines of JSON to examples and bad rows, one row after another: the reference that the fast path must equal."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ft_assets.datasets.columns import BAD_ROWS, EXAMPLES, TURN
from ft_assets.datasets.forms.convert import Converted, convert
from ft_assets.datasets.forms.decode import decode_line
from ft_assets.datasets.forms.reasons import RowProblem
from ft_assets.datasets.forms.settings import FormSettings
from ft_assets.datasets.forms.turns import NAME, Turn

MAX_UNUSED = 50
OTHER_FIELDS = "(other fields)"

_FEW_BYTES = 2 << 20


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """What was in a chunk of lines.

    Args:
        examples: in EXAMPLES; ``row`` counts lines from 1.
        bad: rows that cannot be used, in BAD_ROWS.
        rows: lines that were not blank.
        forms: examples by form.
        unused: examples by field that was not looked at; names that are no plain words are counted as one.
        normalized: examples with a text that was changed by ``clean``.
    """

    examples: pa.RecordBatch
    bad: pa.RecordBatch
    rows: int
    forms: dict[str, int]
    unused: dict[str, int]
    normalized: int


def notes_of_parsed(parsed: Parsed) -> dict[str, Any]:
    """Everything of ``parsed`` but the examples, as JSON."""
    return {
        "rows": parsed.rows,
        "forms": parsed.forms,
        "unused": parsed.unused,
        "normalized": parsed.normalized,
        "bad": parsed.bad.to_pylist(),
    }


def parse_lines(lines: bytes, form: FormSettings, *, ended: bool) -> Parsed:
    """The examples in ``lines``, JSON objects one a line.

    Args:
        lines: whole lines; only the last may lack its line feed.
        form: how rows are read.
        ended: whether a line end belongs after the last line; without one, the file may have been cut off there.
    """
    from ft_assets.datasets.forms.fast import names_of, read_plain

    names = names_of(form)
    if names is None:
        return parse_slowly(lines, form, ended=ended)
    plain = read_plain(lines, form, names)
    if not len(plain.left):
        rest = _Rows()
        examples = plain.examples
    else:
        rest = _read_rows(lines, plain.left.tolist(), form, ended=ended)
        examples = pa.concat_batches([plain.examples, to_examples(rest.numbers, rest.kept)])
        examples = examples.take(pa.array(np.argsort(examples.column("row").to_numpy())))
    return _parsed(rest, examples, plain.forms, plain.unused, plain.normalized)


def parse_chunk(lines: bytes, form: FormSettings, *, ended: bool) -> Parsed:
    """``parse_lines``, by the slow path where the lines are too few to be worth the compiler's start: the same result.

    On a new machine the kernel takes half a minute to compile; four thousand rows take tenths of a second without it.
    """
    return (parse_slowly if len(lines) < _FEW_BYTES else parse_lines)(lines, form, ended=ended)


def parse_slowly(lines: bytes, form: FormSettings, *, ended: bool) -> Parsed:
    """``parse_lines``, row by row in Python."""
    rows = _read_rows(lines, range(lines.count(b"\n") + 1), form, ended=ended)
    return _parsed(rows, to_examples(rows.numbers, rows.kept), Counter(), Counter(), 0)


@dataclass(kw_only=True, slots=True)
class _Rows:
    """Rows as the reference path read them, ``numbers`` the row numbers of the kept."""

    numbers: list[int] = field(default_factory=list)
    kept: list[Converted] = field(default_factory=list)
    bad: list[dict[str, object]] = field(default_factory=list)


def _read_rows(lines: bytes, places: Iterable[int], form: FormSettings, *, ended: bool) -> _Rows:
    """The rows in the lines at ``places`` (0-based)."""
    rows = _Rows()
    pieces = lines.split(b"\n")
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
    """The result for ``rows`` together with counts of the rows that were read elsewhere."""
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


def to_examples(numbers: Sequence[int], rows: Sequence[Converted]) -> pa.RecordBatch:
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
    }
    return pa.RecordBatch.from_pydict(columns, schema=EXAMPLES)


def to_turns(conversations: Sequence[Sequence[Turn]]) -> pa.ListArray:
    """Lists of TURN, without nulls."""
    offsets = np.zeros(len(conversations) + 1, np.int32)
    np.cumsum([len(turns) for turns in conversations], out=offsets[1:])
    parts = list(zip(*(turn for turns in conversations for turn in turns), strict=True)) or [()] * len(TURN)
    arrays = [pa.array(part, pa.string()) for part in parts]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(arrays, fields=list(TURN)))


def _listed(unused: Counter[str]) -> dict[str, int]:
    """The fields in ``unused``; those whose names may be text, and the rarer ones past the first 50, as one."""
    named = sorted((name for name in unused if NAME.fullmatch(name)), key=lambda name: (-unused[name], name))
    kept = {name: unused[name] for name in sorted(named[:MAX_UNUSED])}
    others = unused.total() - sum(kept.values())
    return {**kept, OTHER_FIELDS: others} if others else kept
