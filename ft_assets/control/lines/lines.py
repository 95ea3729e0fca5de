"""Lines and their promotion log: create-only records, one after the other, whose fold says what is served.

A line is ``tenant.dataset-name.recipe-name``. Record ``seq`` lies at ``<tenant>/lines/<line>/<seq>.json``; whoever
creates it has decided, so two promotions at once end in exactly one winner. Each record names the digest of the one
before it, so none can be changed, removed or slipped in unseen.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ft_assets.keys import check_part
from ft_assets.notices.due import mark_due
from ft_resources.artifacts import InputRef
from ft_resources.canonical import canonical_json, digest, sha256_bytes
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.store import Store

Pointer = Literal["dev", "staging", "production"]
Stage = Literal["dev", "staging", "production", "deprecated", "archived"]
POINTERS: tuple[Pointer, ...] = ("dev", "staging", "production")
STAGES: tuple[Stage, ...] = (*POINTERS, "deprecated", "archived")
_NAME = re.compile(r"[0-9]{6}\.json")
_REMEDY = "Restore the object from the bucket's versions or a backup; the log is never edited."


class PromotionLost(UserError):
    """Somebody else's record took the place in the log; nothing was changed."""


class BadLog(CorruptArtifact):
    """A promotion log with a gap, or with a record that is foreign, malformed or altered."""


class PromotionRecord(BaseModel):
    """One decision about a line, with everything that it stood on."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    version: Literal[1] = 1
    id: str = Field(min_length=1, description="Drawn by the writer, who knows his record by it.")
    line: str = Field(description="tenant.dataset-name.recipe-name.")
    seq: int = Field(ge=1, description="Place in the log, from 1.")
    kind: Literal["promotion", "rollback"] = Field(description="What was asked for.")
    stage: Stage = Field(description="Where the adapter goes.")
    adapter: InputRef = Field(description="Address and content digest.")
    eval_report: InputRef = Field(description="The evidence that it was accepted on.")
    checkpoint: InputRef = Field(description="The training.")
    pack: InputRef | None = Field(description="The token pack; null where nothing was trained from one.")
    base: InputRef = Field(description="The base model.")
    dataset: str = Field(min_length=1, description="Dataset key.")
    recipe: str = Field(min_length=1, description="Recipe key.")
    recipe_hash: str = Field(min_length=64, max_length=64, description="Digest of the recipe and its base's lock.")
    metrics: dict[str, Any] = Field(description="Scores of base and candidate.")
    findings: list[str] = Field(description="What the checks of this promotion found.")
    waived: list[str] = Field(description="Inconclusive checks that the actor let through.")
    actor: str = Field(min_length=1, description="Who decided; `auto` where the recipe's margin did.")
    reason: str = Field(min_length=1, description="Why.")
    at: str = Field(min_length=1, description="UTC, ISO 8601.")
    replaces: str = Field(description="Address of the adapter that stood there before, empty for none.")
    previous: str = Field(description="sha256 of the record before this one, empty for the first.")
    seal: str = Field(default="", description="Digest of all other fields.")

    @property
    def expected_seal(self) -> str:
        return digest(self.model_dump(mode="json", exclude={"seal"}))

    @property
    def path(self) -> str:
        return record_path(self.line, self.seq)

    def data(self) -> bytes:
        """The bytes that are stored: sealed, canonical JSON."""
        sealed = self.model_copy(update={"seal": self.expected_seal})
        return canonical_json(sealed.model_dump(mode="json"))


@dataclass(frozen=True, kw_only=True)
class LineState:
    """What a log says.

    Args:
        records: all of them, in order.
        standing: for each pointer, the records that stand behind one another; the last is what it points to.
        deprecated: addresses that get no further promotion, and may still be served.
        archived: addresses that are out of use.
        head: sha256 of the last record, empty for an empty log.
    """

    line: str
    records: tuple[PromotionRecord, ...] = ()
    standing: Mapping[Pointer, tuple[PromotionRecord, ...]]
    deprecated: frozenset[str] = frozenset()
    archived: frozenset[str] = frozenset()
    head: str = ""

    def at(self, stage: Pointer) -> PromotionRecord | None:
        """The record behind what ``stage`` points to, None where it points to nothing."""
        standing = self.standing[stage]
        return standing[-1] if standing else None

    def stages_of(self, address: str) -> tuple[Stage, ...]:
        """Where the adapter at ``address`` stands."""
        pointed = [stage for stage in POINTERS if (found := self.at(stage)) and found.adapter.address == address]
        marks: list[Stage] = ["deprecated"] if address in self.deprecated else []
        return (*pointed, *marks, *(("archived",) if address in self.archived else ()))


def fold(line: str, records: Iterable[PromotionRecord], head: str = "") -> LineState:
    """The state that records lead to, in order. Total: every sequence of records has a state. Pure."""
    settled = tuple(records)
    standing: dict[Pointer, list[PromotionRecord]] = {stage: [] for stage in POINTERS}
    deprecated: set[str] = set()
    archived: set[str] = set()
    for record in settled:
        address = record.adapter.address
        if record.stage == "deprecated":
            deprecated.add(address)
        elif record.stage == "archived":
            archived.add(address)
            standing = {
                stage: [kept for kept in behind if kept.adapter.address != address]
                if behind and behind[-1].adapter.address != address
                # What is archived is not silently followed by what stood there before.
                else []
                for stage, behind in standing.items()
            }
        else:
            behind = standing[record.stage]
            if record.kind == "rollback":
                while behind and behind[-1].adapter.address != address:
                    behind.pop()
            if not behind or behind[-1].adapter.address != address:
                behind.append(record)
    return LineState(
        line=line,
        records=settled,
        standing={stage: tuple(behind) for stage, behind in standing.items()},
        deprecated=frozenset(deprecated),
        archived=frozenset(archived),
        head=head,
    )


def check_line(text: str) -> str:
    """``text`` itself where it is a line's name. Raises UserError otherwise."""
    parts = text.split(".")
    if len(parts) != 3:
        raise UserError(
            f"{text!r} is not a line", where="line", remedy="Write it as tenant.dataset-name.recipe-name: ft lines"
        )
    for part in parts:
        check_part(part, "part of a line")
    return text


def record_path(line: str, seq: int) -> str:
    return f"{line_folder(line)}/{seq:06d}.json"


def line_folder(line: str) -> str:
    return f"{line.partition('.')[0]}/lines/{line}"


def list_lines(store: Store, tenant: str = "") -> list[str]:
    """Lines with a log, of one tenant or of all, sorted."""
    return sorted(line for name in ([tenant] if tenant else store.folders()) for line in store.folders(f"{name}/lines"))


def read_line(store: Store, line: str) -> LineState:
    """The state of ``line``; an empty one where nothing was ever decided. Raises BadLog, which names the file."""
    check_line(line)
    records: list[PromotionRecord] = []
    head = ""
    while True:
        head = _read_on(store, line, records, head)
        listed = {entry.path for entry in store.entries(line_folder(line))}
        _refuse_foreign(listed, line)
        further = listed - {record.path for record in records}
        if not further:
            return fold(line, records, head)
        # What was listed may have been written since we read; a place that stays empty below it is a gap.
        if not store.exists(record_path(line, len(records) + 1)):
            missing = record_path(line, len(records) + 1)
            raise BadLog(f"a record is missing before {min(further)}", where=missing, remedy=_REMEDY)


def append(store: Store, record: PromotionRecord) -> PromotionRecord:
    """Put the record into its place in the log. Raises PromotionLost, which says who won, where it is taken."""
    mark_due(store, "line", record.line.partition(".")[0], record.path)
    if store.create(record.path, record.data()):
        return record
    winner = _parse(store.get(record.path), record.line, record.seq)
    if winner.id == record.id:
        # The answer to our own write got lost and was repeated.
        return record
    raise PromotionLost(
        f"{winner.actor} was faster: {winner.adapter.address} went to {winner.stage} at {winner.at} ({winner.reason})",
        where=record.path,
        remedy=f"Nothing was changed. Look at it (ft line {record.line}), and ask again if it is still wanted.",
    )


def _read_on(store: Store, line: str, records: list[PromotionRecord], head: str) -> str:
    """Append what follows to ``records``; the digest of the last one."""
    while True:
        seq = len(records) + 1
        try:
            data = store.get(record_path(line, seq))
        except FileNotFoundError:
            return head
        record = _parse(data, line, seq)
        if record.previous != head:
            raise BadLog(
                "the record does not follow the one before it, which was altered or exchanged",
                where=record.path,
                remedy=_REMEDY,
            )
        records.append(record)
        head = sha256_bytes(data)


def _parse(data: bytes, line: str, seq: int) -> PromotionRecord:
    path = record_path(line, seq)
    try:
        record = PromotionRecord.model_validate_json(data)
    except ValidationError as error:
        count = error.error_count()
        raise BadLog(f"the record cannot be read ({count} problems)", where=path, remedy=_REMEDY) from error
    if (record.line, record.seq) != (line, seq):
        raise BadLog("the record belongs to another place or line", where=path, remedy=_REMEDY)
    if record.data() != data:
        raise BadLog("the record was altered: it does not match its seal", where=path, remedy=_REMEDY)
    return record


def _refuse_foreign(paths: Iterable[str], line: str) -> None:
    folder = f"{line_folder(line)}/"
    for path in sorted(paths):
        if not _NAME.fullmatch(path.removeprefix(folder)):
            raise BadLog("this is no record of the log", where=path, remedy="Find out who put it there, and remove it.")
