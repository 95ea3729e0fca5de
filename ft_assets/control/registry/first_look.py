"""Preview of a file: what its first rows are and how they are read, and which of them cannot be used, and why."""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ft_assets.control.registry.columns import UnknownColumns
from ft_assets.control.registry.first_rows import look, policy_of_guess
from ft_assets.control.registry.heads import whole_rows
from ft_assets.control.registry.precheck import check_uploads
from ft_assets.control.registry.row_choices import Choices, choices_of, policy_of_choices, with_words
from ft_assets.settings.catalogue.forms import ROW_FORMS
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.columns import LISTED_BAD
from ft_assets.workers.datasets.forms.decode import decode_line
from ft_assets.workers.datasets.forms.parse import parse_lines
from ft_assets.workers.datasets.forms.reasons import RowProblem
from ft_assets.workers.datasets.forms.texts import refuse_surrogates
from ft_assets.workers.datasets.intake.chunking import ROW_BYTES, chunks
from ft_assets.workers.datasets.intake.kinds import CUT, HEAD_BYTES, check_head, kind_of
from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_assets.workers.datasets.intake.spool import Spool, spool
from ft_assets.workers.datasets.reporting.advice import unanswered
from ft_assets.workers.datasets.reporting.bad_fields import field_and_problem
from ft_resources.errors import BadData, BadRecipe, in_sentences

HEAD = 4 << 20
"""Bytes of rows that are looked at; of a larger file the first ones."""
MOST_ROWS = 50_000
"""Looked at, however short they are: each takes its time while a person waits."""
_SHOWN_ROWS, _SHOWN_GROUPS, _SHOWN_PLACES, _SHOWN_CHARACTERS, _CELL = 5, 20, 5, 600, 120
_SAMPLE = 2000
# More than enough for the beginning of a file.
_LIMITS = ReadLimits(seconds=15.0, out_bytes=64 << 20, head_bytes=HEAD)
_PLACES = re.compile(r"\[\d+\]")
# What a problem says of one row alone.
_OWN = re.compile(r"'[^']*'|\d+")

Choose = Callable[[Choices], Choices]
"""Changes how rows are read: first what columns hold, then the fields of turns, and then what words in them mean."""


@dataclass(frozen=True, kw_only=True)
class ShownRow:
    """A usable row: its number, and its shortened texts, each with its role or field (``user``)."""

    row: int
    texts: tuple[tuple[str, str], ...]


@dataclass(kw_only=True)
class BadRows:
    """Rows that cannot be used for the same reason: their number, the first of them, and what is wrong with the first.
    ``problem`` never quotes it."""

    column: str
    problem: str
    count: int = 0
    rows: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class FirstLook:
    """What the beginning of a file holds.

    Args:
        kinds: what the rows teach (``chat``), and how many of each.
        rows: number that was read; ``bad_rows`` of them are unusable, ``bad`` are these by their reasons, the most
            frequent one first.
        shown: the first usable ones.
        whole: whether that was the whole file.
        later: why there is no preview before the whole upload; "" if there is one.
        notes: what is left out of usable rows.
        refused: why the whole file would be refused, as far as is known; "" if nothing is known against it.
        policy: how the rows are read.
        choices: what else could be chosen; None for a document, which has no columns.
        table: the first rows as they are, a shortened text for each column.
    """

    kinds: tuple[tuple[str, int], ...] = ()
    rows: int = 0
    bad_rows: int = 0
    bad: tuple[BadRows, ...] = ()
    shown: tuple[ShownRow, ...] = ()
    whole: bool = False
    later: str = ""
    notes: tuple[str, ...] = ()
    refused: str = ""
    policy: DatasetPolicy = field(default_factory=DatasetPolicy)
    choices: Choices | None = None
    table: tuple[tuple[str, ...], ...] = ()

    @property
    def kind(self) -> str:
        """The form of most of the rows; "" if none can be used."""
        return self.kinds[0][0] if self.kinds else ""


def look_at_beginning(name: str, head: bytes, *, whole: bool) -> FirstLook:
    """``first_look`` at the first bytes of the file ``name``, or at all of them."""
    kind = kind_of(name)
    check_head(head[:HEAD_BYTES], kind, name)
    part = head if whole else whole_rows(head, kind)
    if not part:
        return FirstLook(later="Files of this kind can be checked only after the whole upload.")
    with tempfile.TemporaryDirectory(prefix="ft-head-") as folder:
        path = Path(folder, "upload")
        path.write_bytes(part)
        return first_look(path, name, whole=whole)


def first_look(
    path: Path, name: str, *, whole: bool, policy: DatasetPolicy | None = None, choose: Choose | None = None
) -> FirstLook:
    """Read the first rows of the file at ``path``, which is called ``name``.

    Args:
        whole: whether the file at ``path`` is all of it.
        policy: how its rows are read; guessed as for a first try where it is not given.
        choose: changes that.

    Raises BadData for a file that is not what its name says, or has no rows, and what ``choose`` raises.
    """
    with tempfile.TemporaryDirectory(prefix="ft-look-") as scratch:
        text = (policy or DatasetPolicy()).text
        rows = spool(path, name, Path(scratch), role="upload", text=text, limits=_LIMITS, sha256="-")
        rows = _few(rows, Path(scratch))
        sample = _sample(rows)
        policy = policy or _guessed(rows)
        choices = None if kind_of(name).format in CUT else choices_of(policy, sample)
        columns = choices.columns if choices else {}
        table = tuple(tuple(_cell(row.get(column)) for column in columns) for row in sample[:_SHOWN_ROWS] if columns)
        if choices and choose:
            chosen = choices
            for _ in range(2):
                chosen = with_words(choose(chosen), chosen, sample)
            chosen = choose(chosen)
        if choices and choose and chosen != choices:
            choices = chosen
            try:
                policy = policy_of_choices(chosen, policy)
            except (BadData, BadRecipe) as error:
                said = in_sentences(error.what, error.remedy)
                return FirstLook(refused=said, policy=policy, choices=chosen, table=table)
        found = _read(rows, policy)
        whole = whole and not rows.cut and not found.left
        refused = ""
        if whole:
            try:
                check_uploads([rows], policy)
            except (BadData, BadRecipe) as error:
                # A remedy in the policy does not help a user who uploads only a file.
                refused = error.what.rstrip(".")
    kinds: Counter[str] = Counter()
    for form, count in found.forms.items():
        kinds[ROW_FORMS[form].form.name] += count
    if len(kinds) > 1 and not refused:
        refused = "the rows are of different kinds of data"
    bad = sorted(found.bad.values(), key=lambda group: -group.count)
    return FirstLook(
        kinds=tuple(kinds.most_common()),
        rows=found.rows,
        bad_rows=sum(group.count for group in bad),
        bad=tuple(bad[:_SHOWN_GROUPS]),
        shown=tuple(found.shown),
        whole=whole,
        notes=tuple(unanswered(found.unanswered)),
        refused=refused,
        policy=policy,
        choices=choices,
        table=table,
    )


def _few(rows: Spool, folder: Path) -> Spool:
    """``rows``, or the first MOST_ROWS of them where its beginning has more."""
    with rows.path.open("rb") as file:
        file.seek(rows.start)
        lines = file.read(HEAD).split(b"\n", MOST_ROWS)
    if len(lines) <= MOST_ROWS or not any(map(bytes.strip, lines[:MOST_ROWS])):
        return rows
    few = folder / "few.jsonl"
    few.write_bytes(b"\n".join(lines[:MOST_ROWS]) + b"\n")
    return replace(rows, path=few, start=0, cut=True)


def _guessed(rows: Spool) -> DatasetPolicy:
    try:
        return look(rows, DatasetPolicy())[1]
    except UnknownColumns as error:
        # One that loses columns is shown to a person before anything is done with it.
        return policy_of_guess(error.guess, DatasetPolicy()) if error.guess else DatasetPolicy()
    except BadData:
        return DatasetPolicy()


def _pieces(rows: Spool) -> Iterator[tuple[int, bytes, bool]]:
    """(number of the first row, lines, whether the last has its end) of the first HEAD bytes, each of so few lines that
    all bad ones are listed; a row that is too long is an empty line, and a piece of its own."""
    done = 0
    for chunk in chunks(rows):
        lines = chunk.lines.split(b"\n")
        for first in range(0, len(lines), LISTED_BAD):
            piece = b"\n".join(lines[first : first + LISTED_BAD])
            last = first + LISTED_BAD >= len(lines)
            if not last:
                piece += b"\n"
            done += len(piece)
            if not piece and not chunk.too_long:
                # What follows the last line feed.
                continue
            yield chunk.first_row + first, b"" if chunk.too_long else piece, chunk.ended or not last
            if done >= HEAD:
                return


def _sample(rows: Spool) -> list[dict[str, Any]]:
    sample: list[dict[str, Any]] = []
    for _, lines, ended in _pieces(rows):
        for line in lines.split(b"\n"):
            with suppress(RowProblem):
                if line.strip():
                    row = decode_line(line, ended=ended)
                    # Half of a pair can be on no page and in no address.
                    refuse_surrogates(json.dumps(row, ensure_ascii=False) if b"\\u" in line else "", "")
                    sample.append(row)
        if len(sample) >= _SAMPLE:
            break
    return sample


class _Found:
    """The first rows; ``left`` is whether there are more."""

    def __init__(self) -> None:
        self.rows = 0
        self.forms: Counter[str] = Counter()
        self.bad: dict[tuple[str, str], BadRows] = {}
        self.shown: list[ShownRow] = []
        self.unanswered = 0
        self.left = False

    def add_bad(self, row: int, field: str, problem: str) -> None:
        # The same mistake at another place of a row, or with another word, is the same mistake.
        field = _PLACES.sub("[…]", field)
        group = self.bad.setdefault((field, _OWN.sub("", problem)), BadRows(column=field, problem=problem))
        group.count += 1
        if len(group.rows) < _SHOWN_PLACES:
            group.rows.append(row)


def _read(rows: Spool, policy: DatasetPolicy) -> _Found:
    found, done, form = _Found(), rows.start, FormSettings.of(policy)
    for first_row, lines, ended in _pieces(rows):
        if not lines:
            found.rows += 1
            found.add_bad(first_row, "", f"the row is longer than {ROW_BYTES >> 20} MiB")
            continue
        done += len(lines)
        parsed = parse_lines(lines, form, ended=ended)
        found.rows += parsed.rows
        found.forms.update(parsed.forms)
        found.unanswered += parsed.unanswered
        for bad in parsed.bad.to_pylist():
            detail = f"{bad['field']}: {bad['problem']}" if bad["field"] else bad["problem"]
            found.add_bad(first_row + bad["row"] - 1, *field_and_problem(detail, policy))
        for example in parsed.examples.slice(0, _SHOWN_ROWS - len(found.shown)).to_pylist():
            row = first_row + example["row"] - 1
            found.shown.append(ShownRow(row=row, texts=tuple(_texts(example))))
    found.left = done < rows.path.stat().st_size
    return found


def _texts(example: dict[str, Any]) -> Iterable[tuple[str, str]]:
    for turn in example["messages"]:
        yield turn["role"], _short(turn["content"] or turn["tool_calls"])
    for answer in ("chosen", "rejected"):
        for turn in example[answer]:
            yield answer, _short(turn["content"] or turn["tool_calls"])
    if example["text"]:
        yield "text", _short(example["text"])


def _short(text: str, most: int = _SHOWN_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[:most]} …"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return _short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _CELL)
