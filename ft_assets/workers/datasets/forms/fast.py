"""The fast path: rows of plain texts, column by column; all others are left to the reference path."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from ft_assets.settings.catalogue.forms import GUESSED
from ft_assets.settings.dataset.forms import KIND, FormSettings
from ft_assets.workers.datasets.columns import EXAMPLES, TURN, TURN_COLUMNS, WEIGHT, with_weight
from ft_assets.workers.datasets.forms.convert import form_of, group_of, is_page, kind_of, weight_of
from ft_assets.workers.datasets.forms.decode import MAX_DEPTH, MAX_ROW_BYTES
from ft_assets.workers.datasets.forms.preference import DIALOGUE_START
from ft_assets.workers.datasets.forms.reasons import RowProblem
from ft_assets.workers.datasets.forms.texts import clean, is_blank
from ft_assets.workers.datasets.forms.turns import SHAREGPT_ROLES

_SYSTEM, _USER, _ASSISTANT = range(3)
_ROLES: Mapping[str, int] = MappingProxyType({"system": _SYSTEM, "user": _USER, "assistant": _ASSISTANT})
_SPEAKERS: Mapping[str, int] = MappingProxyType(
    {name: _ROLES[role] for name, role in SHAREGPT_ROLES.items() if role in _ROLES and name != "function_call"}
)
_ROLE_NAMES = pa.array(_ROLES, pa.string())
# The ASCII characters that ``clean`` leaves alone.
_PLAIN_BYTES = bytes((9, 10, *range(0x20, 0x7F)))
# More equal rows than this are worth columns of their own.
_FEW_ROWS = 16

_Value = TypeVar("_Value")
Row = tuple[int, dict[str, Any]]
"""The 0-based number of a line, and the object in it without fields that are null."""


@dataclass(kw_only=True)
class Plain:
    """The plain rows of a chunk.

    Args:
        examples: batches in EXAMPLES, each with its rows in order.
        left: 0-based numbers of lines left to the reference path.
        unused: number of examples by unused field.
        normalized: number of examples with a text that ``clean`` changed.
    """

    examples: list[pa.RecordBatch] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    forms: Counter[str] = field(default_factory=Counter)
    unused: Counter[str] = field(default_factory=Counter)
    normalized: int = 0


class _NotPlain(Exception):
    """Some of the rows are not plain."""


def read_plain(lines: Sequence[bytes], settings: FormSettings) -> Plain:
    """The plain rows of ``lines``, and the lines that are not plain.

    orjson keeps the last of repeated keys. The row then has fewer quotes than its line, unless the line writes quotes
    as ``\\u0022``. It also rounds integers beyond 64 bits: no number that is kept can be so large here.
    """
    if settings.turns is not None or settings.joined:
        return Plain(left=list(range(len(lines))))
    plain = Plain()
    groups: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
    for number, line in enumerate(lines):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = None
        same = type(row) is dict and orjson.dumps(row).count(b'"') == line.count(b'"') and b"\\u0022" not in line
        if not same or len(line) > MAX_ROW_BYTES:
            plain.left.append(number)
            continue
        if settings.ignore:
            # A field that is nested too deeply makes a row bad, even if it is ignored.
            if any(isinstance(row.get(name), (dict, list)) for name in settings.ignore):
                plain.left.append(number)
                continue
            row = {name: value for name, value in row.items() if name not in settings.ignore}
        if None in row.values():
            row = {name: value for name, value in row.items() if value is not None}
        groups[tuple(row)].append((number, row))
    for names, rows in groups.items():
        try:
            form = form_of(dict.fromkeys(names, ""), settings)
        except RowProblem:
            form = ""
        if form in GUESSED and (len(rows) > _FEW_ROWS or len(groups) <= _FEW_ROWS):
            _read(rows, form, settings, plain)
        else:
            plain.left += [number for number, _ in rows]
    plain.left.sort()
    return plain


def _read(rows: list[Row], form: str, settings: FormSettings, plain: Plain, *, alike: bool = False) -> None:
    """Add ``rows``, which have the same fields, to ``plain``; ``alike``: and values of the same types."""
    table = _Table([row for _, row in rows], form, settings)
    try:
        columns = table.columns()
    except (_NotPlain, RowProblem):
        shapes: defaultdict[Any, list[Row]] = defaultdict(list)
        for number, row in rows:
            shapes[_shape(row)].append((number, row))
        for same in shapes.values():
            if alike or (len(same) <= _FEW_ROWS and len(shapes) > _FEW_ROWS):
                plain.left += [number for number, _ in same]
            else:
                _read(same, form, settings, plain, alike=True)
        return
    numbers = np.array([number for number, _ in rows])
    schema = with_weight(EXAMPLES, weighed=settings.weight is not None)
    batch = pa.RecordBatch.from_pydict({"row": pa.array(numbers + 1), **columns}, schema=schema)
    kept = ~table.left
    plain.examples.append(batch if kept.all() else batch.filter(pa.array(kept)))
    plain.left += numbers[table.left].tolist()
    plain.forms[form] += int(kept.sum())
    plain.unused.update(dict.fromkeys(table.unused, int(kept.sum())))
    plain.normalized += int((table.changed & kept).sum())


def _shape(row: dict[str, Any]) -> tuple[Any, ...]:
    """Equal for rows with values of the same types."""
    return tuple(
        frozenset((*item, *map(type, item.values())) if type(item) is dict else type(item) for item in value)
        if type(value) is list
        else type(value)
        for value in row.values()
    )


class _Table:
    """Rows of the same fields. Methods raise _NotPlain if a row needs the reference path for more than its texts."""

    def __init__(self, rows: list[dict[str, Any]], form: str, settings: FormSettings) -> None:
        self._rows = rows
        self._form = form
        self._settings = settings
        fields = (*GUESSED[form].needs, *GUESSED[form].may_have, *((KIND,) if settings.reads_kind else ()))
        self._sources = {name: settings.source(name) for name in fields if settings.source(name) in rows[0]}
        self._paged = form == "text" and {"source", "page"} <= rows[0].keys()
        known = {
            *self._sources.values(),
            settings.group_by,
            settings.weight,
            *(("source", "page") if self._paged else ()),
        }
        self.unused = [name for name in rows[0] if name not in known]
        # Rows with a text that is empty or out of place, and rows with a text that ``clean`` changed.
        self.left = np.zeros(len(rows), np.bool_)
        self.changed = np.zeros(len(rows), np.bool_)

    def columns(self) -> dict[str, pa.Array]:
        """The columns of EXAMPLES but ``row``."""
        if {"tools", "functions"} & self._sources.keys():
            raise _NotPlain
        for name in self.unused:
            if {dict, list} & {type(row[name]) for row in self._rows}:
                self.left |= [_brackets(row[name]) >= MAX_DEPTH for row in self._rows]
        count = len(self._rows)
        nothing = pa.repeat("", count)
        columns = {name: _turns(np.zeros(count, np.int64), [], []) for name in TURN_COLUMNS}
        columns |= dict.fromkeys(("text", "tools", "group", "kind"), nothing)
        columns["page"] = pa.array(np.zeros(count, np.int32))
        if self._form in ("messages", "sharegpt"):
            columns["messages"] = self._conversations()
        elif self._form == "text":
            columns["text"] = pa.array(self._texts(self._column("text")), pa.string())
        else:
            columns |= self._pairs()
        if self._paged:
            pages = [row["page"] if is_page(row["page"]) else -1 for row in self._rows]
            self.left |= [page < 0 for page in pages]
            columns["page"] = pa.array(pages, pa.int32())
            columns["group"] = pa.array([clean(source) for source in _strings([r["source"] for r in self._rows])])
        if (by := self._settings.group_by) is not None:
            columns["group"] = pa.array(self._valid(by, lambda value: group_of(value, by), ""), pa.string())
        if self._settings.weight is not None:
            columns[WEIGHT.name] = pa.array(self._valid(self._settings.weight, weight_of, 1.0), pa.float64())
        if KIND in self._sources:
            columns[KIND] = pa.array([kind_of(kind) for kind in _strings(self._column(KIND))], pa.string())
        return columns

    def _column(self, field: str) -> list[Any]:
        source = self._sources[field]
        return [row[source] for row in self._rows]

    def _valid(self, name: str, read: Callable[[Any], _Value], otherwise: _Value) -> list[_Value]:
        """The field ``name`` of the upload, as ``read`` understands it; rows where it raises RowProblem are left."""
        if name not in self._rows[0]:
            raise _NotPlain
        values = [otherwise] * len(self._rows)
        for place, row in enumerate(self._rows):
            try:
                values[place] = read(row[name])
            except RowProblem:
                self.left[place] = True
        return values

    def _texts(
        self, texts: list[Any], owners: NDArray[np.int64] | None = None, *, maybe_blank: bool = False
    ) -> list[str]:
        """``texts`` cleaned; ``owners`` are their rows, if not one each."""
        cleaned, unfit = [], []
        for place, text in enumerate(_strings(texts)):
            try:
                cleaned.append(clean(text))
            except RowProblem:
                cleaned.append("")
                unfit.append(place)
        changed = [place for place, text in enumerate(cleaned) if text is not texts[place] and text != texts[place]]
        blank = [] if maybe_blank else [place for place, text in enumerate(cleaned) if is_blank(text)]
        for places, rows in ((changed, self.changed), ([*blank, *unfit], self.left)):
            rows[places if owners is None else owners[places]] = True
        return cleaned

    def _conversations(self) -> pa.ListArray:
        """Lists of turns with a role and a text each."""
        lists = self._column("messages" if self._form == "messages" else "conversations")
        if set(map(type, lists)) != {list} or "system" in self._sources:
            raise _NotPlain
        sizes = np.fromiter(map(len, lists), np.int64)
        turns = list(chain.from_iterable(lists))
        if not sizes.all() or set(map(type, turns)) != {dict} or set(map(len, turns)) != {2}:
            raise _NotPlain
        spoken = "from" in turns[0]
        try:
            fields, codes = (("from", "value"), _SPEAKERS) if spoken else (("role", "content"), _ROLES)
            names, texts = (list(map(itemgetter(name), turns)) for name in fields)
            roles = np.array([codes.get(name, -1) for name in names], np.int8)
        except (KeyError, TypeError):
            raise _NotPlain from None
        owners = np.repeat(np.arange(len(lists)), sizes)
        ends = np.cumsum(sizes)
        system = roles[ends - sizes] == _SYSTEM
        places = np.arange(len(turns)) - (ends - sizes + system)[owners]
        expected = np.where(places < 0, _SYSTEM, np.where(places % 2, _ASSISTANT, _USER))
        self.left[owners[roles != expected]] = True
        self.left |= expected[ends - 1] != _ASSISTANT
        return _turns(sizes, expected, self._texts(texts, owners))

    def _pairs(self) -> dict[str, pa.ListArray]:
        """A prompt in one text, and its answer or a chosen and a rejected one."""
        ask, *answers = {
            "prompt/completion": ("prompt", "completion"),
            "alpaca": ("instruction", "output"),
            "preference": ("prompt", "chosen", "rejected"),
        }[self._form]
        if ask not in self._sources:
            raise _NotPlain
        prompts, *answered = (self._texts(self._column(name)) for name in (ask, *answers))
        if "input" in self._sources:
            more = self._texts(self._column("input"), maybe_blank=True)
            prompts = [f"{one}\n\n{two}" if not is_blank(two) else one for one, two in zip(prompts, more, strict=True)]
        systems = [""] * len(prompts)
        if "system" in self._sources:
            systems = self._texts(self._column("system"), maybe_blank=True)
        turns = [
            ((_SYSTEM, system), (_USER, prompt)) if not is_blank(system) else ((_USER, prompt),)
            for system, prompt in zip(systems, prompts, strict=True)
        ]
        one = np.ones(len(prompts), np.int64)
        if self._form != "preference":
            turns = [(*asked, (_ASSISTANT, answer)) for asked, answer in zip(turns, answered[0], strict=True)]
            answers = []
        else:
            whole = zip(*(self._column(name) for name in (ask, *answers)), strict=True)
            self.left |= [any(text.startswith(DIALOGUE_START) for text in texts) for texts in whole]
            self.left |= [good == bad for good, bad in zip(*answered, strict=True)]
        roles, texts = zip(*chain.from_iterable(turns), strict=True)
        columns = {"messages": _turns(np.fromiter(map(len, turns), np.int64), roles, texts)}
        for name, answer in zip(answers, answered, strict=False):
            columns[name] = _turns(one, one * _ASSISTANT, answer)
        return columns


def _strings(values: list[Any]) -> list[str]:
    if set(map(type, values)) != {str}:
        raise _NotPlain
    return values


def _brackets(value: Any) -> int:
    written = orjson.dumps(value)
    return written.count(b"[") + written.count(b"{")


def _turns(sizes: NDArray[np.int64], roles: ArrayLike, texts: Sequence[str]) -> pa.ListArray:
    """Lists of ``sizes`` turns."""
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(sizes, dtype=np.int32)])
    nothing = pa.repeat("", len(texts))
    fields = [_ROLE_NAMES.take(pa.array(roles, pa.int8())), pa.array(texts, pa.string()), nothing, nothing, nothing]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(fields, fields=list(TURN)))
