"""Lines and their promotion log: a sequence of create-only records whose fold determines what is served.

A line is ``tenant.dataset-name.recipe-name``. Record ``seq`` is at ``<tenant>/lines/<line>/<seq>.json``. Creating
it is the decision, so exactly one of two concurrent promotions wins. Each record names its predecessor's digest, so
none can be changed, removed or inserted unnoticed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from ft_assets.control.lines.signing import assure_decision_signed, require_decisions_signed
from ft_assets.records.chained_log import ChainedLog, SealedRecord
from ft_assets.records.due_notices import mark_due
from ft_assets.settings.keys import check_part
from ft_resources.artifacts import InputRef
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_resources.strict_model import added_field

Pointer = Literal["dev", "staging", "production"]
Stage = Literal["dev", "staging", "production", "deprecated", "archived"]
POINTERS: tuple[Pointer, ...] = ("dev", "staging", "production")
STAGES: tuple[Stage, ...] = (*POINTERS, "deprecated", "archived")


class PromotionLost(UserError):
    """Another record took the place in the log; nothing was changed."""


class PromotionRecord(SealedRecord):
    """One decision about a line, with everything that it was based on."""

    WHAT: ClassVar[str] = "the record"

    version: Literal[1] = 1
    id: str = Field(min_length=1, description="Drawn by the writer, to recognise its own record.")
    line: str = Field(description="tenant.dataset-name.recipe-name.")
    kind: Literal["promotion", "rollback"] = Field(description="What was requested.")
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
    replaces: str = Field(description="Address of the adapter that was in the stage before, empty for none.")
    proposed_by: str = added_field("", description="Who asked for it, where a second person decided; else empty.")

    @property
    def path(self) -> str:
        return record_path(self.line, self.seq)


@dataclass(frozen=True, kw_only=True)
class LineState:
    """The state after a log's records.

    Args:
        records: all of them, in order.
        standing: for each pointer, a stack of records; the pointer's target is the last.
        deprecated: addresses that may not be promoted again, but may still be served.
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
        """The record that ``stage`` points to, None if it points to nothing."""
        standing = self.standing[stage]
        return standing[-1] if standing else None

    def stages_of(self, address: str) -> tuple[Stage, ...]:
        """The stages of the adapter at ``address``."""
        pointed = [stage for stage in POINTERS if (found := self.at(stage)) and found.adapter.address == address]
        marks: list[Stage] = ["deprecated"] if address in self.deprecated else []
        return (*pointed, *marks, *(("archived",) if address in self.archived else ()))


def fold(line: str, records: Iterable[PromotionRecord], head: str = "") -> LineState:
    """The state after the records, in order. Total: every sequence of records has a state. Pure."""
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
                # The previous adapter does not silently replace an archived one.
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
    """``text`` itself if it is a line's name. Raises UserError otherwise."""
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
    return sorted(line for name in ([tenant] if tenant else store.tenants()) for line in store.folders(f"{name}/lines"))


def read_line(store: Store, line: str) -> LineState:
    """The state of ``line``; empty if nothing was ever decided. Raises CorruptArtifact, which names the file, for a log
    with a gap or a record that is foreign, malformed or altered; Unsigned, which is one, for a record that puts an
    adapter into a stage without the signature that ``FT_TRUSTED_KEYS`` demands."""
    state = read_unproved(store, line)
    # Out of use goes without: taking an adapter away needs no key.
    require_decisions_signed(store, ((each, each.adapter) for each in state.records if each.stage in POINTERS))
    return state


def read_unproved(store: Store, line: str) -> LineState:
    """As ``read_line``, whoever signed its records: for the one who signs them."""
    records, head = _log(store, check_line(line)).read()
    return fold(line, records, head)


def address_at(store: Store, line: str, stage: str) -> str | None:
    """The address of the adapter in ``stage`` of ``line``, None for none."""
    state = read_line(store, line)
    return next((found.adapter.address for each in POINTERS if each == stage and (found := state.at(each))), None)


def append(store: Store, record: PromotionRecord) -> PromotionRecord:
    """Write the record at its place in the log, signed. Raises PromotionLost, which names the winner, if the place is
    taken, and Unsigned where signatures are demanded and this process has no key."""
    if record.stage in POINTERS:
        assure_decision_signed(store, record)
    mark_due(store, "line", record.line.partition(".")[0], record.path)
    winner = _log(store, record.line).append(record)
    if winner.id == record.id:
        # A write repeated because its answer was lost, or another approval that carried out the same proposal.
        return winner
    raise PromotionLost(
        f"concurrent change by {winner.actor}: {winner.adapter.address} was moved to {winner.stage} at "
        f"{winner.at} ({winner.reason})",
        where=record.path,
        remedy=f"Nothing was changed. See ft line {record.line}, and repeat the request if still needed.",
    )


def _log(store: Store, line: str) -> ChainedLog[PromotionRecord]:
    return ChainedLog(store=store, folder=line_folder(line), kind=PromotionRecord)
