"""Lines of JSON to examples and bad rows, one row after another: the reference that the fast path must equal."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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


def parse_lines(lines: bytes, form: FormSettings, *, ended: bool) -> Parsed:
    """The examples in ``lines``, JSON objects one a line.

    Args:
        lines: whole lines; only the last may lack its line feed.
        form: how rows are read.
        ended: whether a line end belongs after the last line; without one, the file may have been cut off there.
    """
    return parse_slowly(lines, form, ended=ended)


def parse_slowly(lines: bytes, form: FormSettings, *, ended: bool) -> Parsed:
    """``parse_lines``, row by row in Python."""
    numbers: list[int] = []
    kept: list[Converted] = []
    bad: list[dict[str, object]] = []
    pieces = lines.split(b"\n")
    for number, line in enumerate(pieces, 1):
        if not line.strip():
            continue
        try:
            kept.append(convert(decode_line(line, ended=ended or number < len(pieces)), form))
            numbers.append(number)
        except RowProblem as problem:
            field = problem.field
            bad.append({"row": number, "reason": problem.reason.value, "field": field, "problem": problem.problem})
    return Parsed(
        examples=to_examples(numbers, kept),
        bad=pa.RecordBatch.from_pylist(bad, schema=BAD_ROWS),
        rows=len(kept) + len(bad),
        forms=dict(sorted(Counter(row.form for row in kept).items())),
        unused=count_unused([row.unused for row in kept]),
        normalized=sum(row.changed for row in kept),
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
    fields = list(zip(*(turn for turns in conversations for turn in turns), strict=True)) or [()] * len(TURN)
    arrays = [pa.array(field, pa.string()) for field in fields]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(arrays, fields=list(TURN)))


def count_unused(rows: Sequence[Sequence[str]]) -> dict[str, int]:
    """How often each field stands in ``rows``; those that may be text, and rare ones past the first 50, as one."""
    counts = Counter(name if NAME.fullmatch(name) else OTHER_FIELDS for names in rows for name in names)
    named = sorted((name for name in counts if name != OTHER_FIELDS), key=lambda name: (-counts[name], name))
    others = sum(counts[name] for name in (*named[MAX_UNUSED:], OTHER_FIELDS))
    kept = {name: counts[name] for name in sorted(named[:MAX_UNUSED])}
    return {**kept, OTHER_FIELDS: others} if others else kept
