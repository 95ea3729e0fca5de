"""The fast path: plain rows through a numba kernel, all others through the reference, and both in their order."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ft_assets.datasets.columns import EXAMPLES, TURN
from ft_assets.datasets.forms import rows_kernel as kernel
from ft_assets.datasets.forms.codepoints import point_table
from ft_assets.datasets.forms.decode import MAX_ROW_BYTES
from ft_assets.datasets.forms.settings import FORM_FIELDS, FormSettings

_SLOTS = {
    "messages": kernel.MESSAGES,
    "conversations": kernel.CONVERSATIONS,
    "prompt": kernel.PROMPT,
    "completion": kernel.COMPLETION,
    "chosen": kernel.CHOSEN,
    "rejected": kernel.REJECTED,
    "instruction": kernel.INSTRUCTION,
    "output": kernel.OUTPUT,
    "input": kernel.INPUT,
    "text": kernel.TEXT,
    "system": kernel.SYSTEM,
    "kind": kernel.KIND,
    "tools": kernel.OTHER,
    "functions": kernel.OTHER,
}
_TURN_NAMES = ("role", "content", "from", "value", "system", "user", "assistant", "human", "gpt")
_ROLES = pa.array(["system", "user", "assistant"], pa.string())


@dataclass(frozen=True, kw_only=True)
class Plain:
    """The plain rows of a chunk.

    Args:
        examples: in EXAMPLES.
        left: 0-based lines that were left to the reference path.
        unused: fields that were not looked at, each as often as it stands in a row.
    """

    examples: pa.RecordBatch
    left: NDArray[np.int64]
    forms: Counter[str]
    unused: Counter[str]
    normalized: int


@dataclass(frozen=True, kw_only=True)
class _Names:
    """Names one after another, where each ends, and what each is."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int32]
    slots: NDArray[np.int32]
    by_slot: dict[int, str]


def names_of(settings: FormSettings) -> _Names | None:
    """The fields that the kernel looks for; None where two of them have one name, which it cannot tell apart."""
    forms = FORM_FIELDS.values() if settings.form == "auto" else [FORM_FIELDS[settings.form]]
    fields = sorted({name for form in forms for name in (*form.needs, *form.may_have)} | {"kind"})
    pairs = [(settings.source(name), _SLOTS[name]) for name in fields]
    if settings.group_by is not None:
        pairs.append((settings.group_by, kernel.GROUP))
    if settings.group_by not in ("source", "page") and settings.form in ("auto", "text"):
        pairs += [("source", kernel.SOURCE), ("page", kernel.PAGE)]
    if len({name for name, _ in pairs}) < len(pairs):
        return None
    data, offsets = _joined([name for name, _ in pairs])
    slots = np.array([slot for _, slot in pairs], np.int32)
    return _Names(data=data, offsets=offsets, slots=slots, by_slot={slot: name for name, slot in pairs})


def read_plain(lines: bytes, settings: FormSettings, names: _Names) -> Plain:
    """The rows of ``lines`` that are plain, and which lines are not."""
    data = np.frombuffer(lines, np.uint8)
    ends = np.flatnonzero(data == 10)
    starts = np.concatenate([[0], ends + 1])
    ends = np.concatenate([ends, [len(data)]])
    count, size = len(starts), len(data)
    needs = [
        sum(1 << _SLOTS[name] for name in form.needs) if settings.form in ("auto", key) else -1
        for key, form in FORM_FIELDS.items()
    ]
    turn_data, turn_offsets = _joined(list(_TURN_NAMES))
    # No turn is shorter than {} and a comma. Room that is not needed is never touched.
    most_turns = size // 3 + 8
    texts = np.empty((kernel.COLUMNS, size + 8), np.uint8)
    states = np.empty(count, np.int32)
    offsets = np.zeros((kernel.COLUMNS, count + 1), np.int32)
    turn_ends = np.zeros(most_turns, np.int32)
    roles = np.empty(most_turns, np.uint8)
    lists = np.zeros(count + 1, np.int32)
    pages = np.empty(count, np.int32)
    masks = np.empty(count, np.int64)
    changes = np.empty(count, np.bool_)
    unknown_spans = np.empty((kernel.MAX_UNKNOWN, 2), np.int64)
    unknown_counts = np.zeros(kernel.MAX_UNKNOWN, np.int64)
    rows, unknown = kernel.read_rows(
        data,
        starts.astype(np.int64),
        ends.astype(np.int64),
        names.data,
        names.offsets,
        names.slots,
        turn_data,
        turn_offsets,
        np.array(needs, np.int64),
        settings.form == "auto",
        settings.group_by is not None,
        settings.group_by not in ("source", "page"),
        MAX_ROW_BYTES,
        point_table(),
        texts,
        states,
        offsets,
        turn_ends,
        roles,
        lists,
        pages,
        masks,
        changes,
        unknown_spans,
        unknown_counts,
    )
    kept = states >= 0
    forms = states[kept]

    def column(number: int) -> pa.StringArray:
        return _strings(offsets[number, : rows + 1], texts[number])

    turns = int(lists[rows])
    answered = np.zeros(rows + 1, np.int32)
    np.cumsum(forms == kernel.F_PREFERENCE, out=answered[1:])
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(np.flatnonzero(kept) + 1, pa.int64()),
            _turns(lists[: rows + 1], roles[:turns], _strings(turn_ends[: turns + 1], texts[kernel.C_CONTENT])),
            *(
                _answers(answered, offsets[number, : rows + 1], texts[number], forms)
                for number in (kernel.C_CHOSEN, kernel.C_REJECTED)
            ),
            column(kernel.C_TEXT),
            _strings(np.zeros(rows + 1, np.int32), texts[0][:0]),
            column(kernel.C_GROUP),
            column(kernel.C_KIND),
            pa.array(pages[:rows]),
        ],
        schema=EXAMPLES,
    )
    named = {
        lines[unknown_spans[index, 0] : unknown_spans[index, 1]].decode(): int(unknown_counts[index])
        for index in range(unknown)
        if unknown_counts[index]
    }
    return Plain(
        examples=batch,
        left=np.flatnonzero(states == kernel.LEFT),
        forms=Counter(
            {name: int(n) for name, n in zip(FORM_FIELDS, np.bincount(forms, minlength=6), strict=True) if n}
        ),
        unused=Counter(named) + _unused_slots(forms, masks[:rows], settings, names),
        normalized=int(changes[:rows].sum()),
    )


def _unused_slots(
    forms: NDArray[np.int32], masks: NDArray[np.int64], settings: FormSettings, names: _Names
) -> Counter[str]:
    """Fields of other forms, that a row's own form does not look at."""
    counts: Counter[str] = Counter()
    paged = (masks >> kernel.OTHER) & 1 == 1
    for number, form in enumerate(FORM_FIELDS.values()):
        mine = forms == number
        if not mine.any():
            continue
        known = {_SLOTS[name] for name in (*form.needs, *form.may_have, "kind")} | {kernel.GROUP}
        for slot, name in names.by_slot.items():
            if slot not in known and slot != kernel.OTHER:
                there = mine & ((masks >> slot) & 1 == 1)
                if slot in (kernel.SOURCE, kernel.PAGE):
                    there &= ~paged
                if there.any():
                    counts[name] += int(there.sum())
    return counts


def _joined(names: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    data = [name.encode(errors="surrogatepass") for name in names]
    offsets = np.cumsum([0, *(len(name) for name in data)]).astype(np.int32)
    return np.frombuffer(b"".join(data), np.uint8), offsets


def _strings(offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> pa.StringArray:
    """Texts that stand one after another in ``data``; copied, so that the large scratch can go."""
    end = int(offsets[-1])
    return pa.StringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(np.ascontiguousarray(offsets).copy()), pa.py_buffer(data[:end].copy())
    )


def _turns(lists: NDArray[np.int32], roles: NDArray[np.uint8], contents: pa.StringArray) -> pa.ListArray:
    empty = _strings(np.zeros(len(contents) + 1, np.int32), np.empty(0, np.uint8))
    fields = [pc.take(_ROLES, pa.array(roles)), contents, empty, empty, empty]
    return pa.ListArray.from_arrays(pa.array(lists), pa.StructArray.from_arrays(fields, fields=list(TURN)))


def _answers(
    lists: NDArray[np.int32], offsets: NDArray[np.int32], data: NDArray[np.uint8], forms: NDArray[np.int32]
) -> pa.ListArray:
    """One assistant turn for each preference row and none for the others."""
    ends = offsets[1:][forms == kernel.F_PREFERENCE]
    contents = _strings(np.concatenate([np.zeros(1, np.int32), ends]), data)
    return _turns(lists, np.full(len(contents), 2, np.uint8), contents)
