"""Preview of a file before its upload: what its first rows are, and which of them cannot be used."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.control.registry.precheck import check_uploads
from ft_assets.settings.catalogue.forms import ROW_FORMS
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.forms.parse import parse_slowly
from ft_assets.workers.datasets.intake.chunking import chunks
from ft_assets.workers.datasets.intake.kinds import HEAD_BYTES, Kind, check_head, kind_of
from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_assets.workers.datasets.intake.spool import spool
from ft_resources.errors import BadData

_SHOWN_ROWS, _SHOWN_BAD, _SHOWN_CHARACTERS = 5, 50, 600
# More than enough for the beginning of a file.
_LIMITS = ReadLimits(seconds=15.0, out_bytes=64 << 20)


@dataclass(frozen=True, kw_only=True)
class ShownRow:
    """A usable row: its number, and its shortened texts, each with its role or field (``user``)."""

    row: int
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class BadRow:
    """An unusable row; ``problem`` never quotes it."""

    row: int
    field: str
    problem: str


@dataclass(frozen=True, kw_only=True)
class FirstLook:
    """What the beginning of a file holds.

    Args:
        kinds: what the rows teach (``chat``), and how many of each.
        rows: number that was read; ``bad_rows`` of them are unusable, ``bad`` are the first of these.
        shown: the first usable ones.
        whole: whether that was the whole file.
        later: why there is no preview before the whole upload; "" if there is one.
        refused: why the whole file would be refused, as far as is known; "" if nothing is known against it.
    """

    kinds: tuple[tuple[str, int], ...] = ()
    rows: int = 0
    bad_rows: int = 0
    bad: tuple[BadRow, ...] = ()
    shown: tuple[ShownRow, ...] = ()
    whole: bool = False
    later: str = ""
    refused: str = ""


def first_look(name: str, head: bytes, *, whole: bool) -> FirstLook:
    """Read the first bytes of the file ``name``, or all of them. Raises BadData for a file that is not what its name
    says, or has no rows."""
    kind = kind_of(name)
    check_head(head[:HEAD_BYTES], kind, name)
    part = head if whole else _whole_rows(head, kind)
    if not part:
        return FirstLook(later="Files of this kind can be checked only after the whole upload.")
    policy = DatasetPolicy()
    with tempfile.TemporaryDirectory(prefix="ft-look-") as scratch:
        path = Path(scratch, "upload")
        path.write_bytes(part)
        rows = spool(path, name, Path(scratch), role="upload", text=policy.text, limits=_LIMITS)
        found = _read([(chunk.first_row, chunk.lines) for chunk in chunks(rows)], FormSettings.of(policy))
        refused = ""
        if whole:
            try:
                check_uploads([rows], policy)
            except BadData as error:
                # A remedy in the policy does not help a user who uploads only a file.
                refused = error.what.rstrip(".")
    kinds: Counter[str] = Counter()
    for form, count in found.forms.items():
        kinds[ROW_FORMS[form].form.name] += count
    if len(kinds) > 1 and not refused:
        refused = "the rows are of different kinds of data"
    return FirstLook(
        kinds=tuple(kinds.most_common()),
        rows=found.rows,
        bad_rows=len(found.bad),
        bad=tuple(found.bad[:_SHOWN_BAD]),
        shown=tuple(found.shown),
        whole=whole,
        refused=refused,
    )


class _Found:
    """What was in some chunks."""

    def __init__(self) -> None:
        self.rows = 0
        self.forms: Counter[str] = Counter()
        self.bad: list[BadRow] = []
        self.shown: list[ShownRow] = []


def _read(parts: Iterable[tuple[int, bytes]], form: FormSettings) -> _Found:
    found = _Found()
    for first_row, lines in parts:
        parsed = parse_slowly(lines, form, ended=True)
        found.rows += parsed.rows
        found.forms.update(parsed.forms)
        for bad in parsed.bad.to_pylist():
            row = first_row + bad["row"] - 1
            found.bad.append(BadRow(row=row, field=bad["field"], problem=bad["problem"]))
        for example in parsed.examples.slice(0, _SHOWN_ROWS - len(found.shown)).to_pylist():
            row = first_row + example["row"] - 1
            found.shown.append(ShownRow(row=row, texts=tuple(_texts(example))))
    return found


def _texts(example: dict[str, Any]) -> Iterable[tuple[str, str]]:
    for turn in example["messages"]:
        yield turn["role"], _short(turn["content"] or turn["tool_calls"])
    for answer in ("chosen", "rejected"):
        for turn in example[answer]:
            yield answer, _short(turn["content"] or turn["tool_calls"])
    if example["text"]:
        yield "text", _short(example["text"])


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} …"


def _whole_rows(head: bytes, kind: Kind) -> bytes:
    """The complete rows in the beginning of a file; b"" if none can be read without the rest."""
    if kind.codec:
        return b""
    if kind.format in ("jsonl", "txt"):
        return head[: head.rfind(b"\n") + 1]
    if kind.format in ("csv", "tsv"):
        return _whole_records(head)
    return _whole_elements(head) if kind.format == "json" else b""


def _whole_records(head: bytes) -> bytes:
    """A CSV up to its last newline outside a quoted field; b"" without such a newline."""
    end, quotes = len(head), head.count(b'"')
    while (start := head.rfind(b"\n", 0, end)) >= 0:
        quotes -= head.count(b'"', start, end)
        if quotes % 2 == 0:
            return head[: start + 1]
        end = start
    return b""


def _whole_elements(head: bytes) -> bytes:
    """A JSON array of the complete elements, or the complete lines of JSON."""
    if head.lstrip()[:1] == b"{":
        try:
            json.loads(head.partition(b"\n")[0])
        except ValueError:
            return b""
        return head[: head.rfind(b"\n") + 1]
    depth, end, inside, escaped = 0, 0, False, False
    for place, byte in enumerate(head):
        if inside:
            inside = escaped or byte != 0x22
            escaped = byte == 0x5C and not escaped
        elif byte == 0x22:
            inside = True
        elif byte in b"[{":
            depth += 1
        elif byte in b"]}":
            depth -= 1
            end = place + 1 if depth == 1 else end
    return head[:end] + b"]" if end else b""
