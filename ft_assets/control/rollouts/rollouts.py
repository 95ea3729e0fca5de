"""Rollouts of a line's candidates: a sequence of create-only records whose fold determines the weight of each adapter.

Record ``seq`` is at ``<tenant>/rollouts/<line>/<seq>.json``, hash-chained as promotions are. The log has every rollout
of the line, one after the other: at most one of them is open. Each record carries the evidence it was decided on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from ft_assets.control.lines.lines import check_line
from ft_assets.control.lines.signing import assure_decision_signed, require_decisions_signed
from ft_assets.control.rollouts.evidence import Evidence
from ft_assets.records.chained_log import ChainedLog, SealedRecord
from ft_assets.records.due_notices import mark_due
from ft_assets.settings.rollout_settings import MARGIN, SHADOWED, Kind
from ft_assets.settings.shadow_judge import ShadowJudge
from ft_resources.artifacts import InputRef
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_resources.strict_model import StrictModel, added_field

FOLDER = "rollouts"
RecordKind = Literal["started", "advanced", "completed", "rolled_back", "cancelled"]
WHOLE = 100


class RolloutLost(UserError):
    """Another record took the place in the log; nothing was changed."""


class RolloutPlan(StrictModel):
    """The plan with which the rollout began."""

    steps: list[int] = Field(
        description="Increasing traffic shares of the candidate, in percent; the last is 100 (production)."
    )
    minimum: int = Field(ge=1, description="Outcomes of the candidate of each kind, at each weight.")
    margins: dict[Kind, float] = Field(description="By kind of outcome that counts: the loss that is a regression.")
    latency_limit_s: float | None = Field(gt=0, description="Answers within it are good; null if latency is not asked.")
    waive_incumbent: bool = Field(description="Whether an inconclusive offline comparison is let through.")
    made_by: str = Field(description="The root of the makers of the key of who started it; empty for no key.")
    shadow: int = added_field(
        0,
        ge=0,
        le=WHOLE,
        description="Percent of the requests that are copied to the candidate before its first weight; 0: it begins "
        "with that weight.",
    )
    judge: ShadowJudge | None = added_field(
        None, description="Who compares both answers to a sample of the copied requests; null: nobody."
    )

    @model_validator(mode="after")
    def _in_order(self) -> "RolloutPlan":
        rising = self.steps == sorted(set(self.steps)) and len(self.steps) > 1
        if not rising or self.steps[0] < 1 or self.steps[-1] != WHOLE:
            raise ValueError("steps rise from 1 or more to 100, with at least one below 100")
        if not self.margins or not all(0 < margin < 1 for margin in self.margins.values()):
            raise ValueError("at least one kind of outcome counts, with a margin between 0 and 1")
        if ("latency" in self.margins) != (self.latency_limit_s is not None):
            raise ValueError("a latency limit belongs to the outcome latency")
        if self.shadow and not self.shadowed:
            kinds = f"one of {', '.join(SHADOWED)} counts"
            raise ValueError(f"{kinds}, or a judge is named, where requests are copied: nobody sees the answers")
        return self

    @property
    def shadowed(self) -> dict[Kind, float]:
        """The margins of the kinds that can be measured in the shadow stage."""
        judged: dict[Kind, float] = {"judge": self.margins.get("judge", MARGIN)} if self.judge else {}
        return {kind: margin for kind, margin in self.margins.items() if kind in SHADOWED} | judged


class RolloutRecord(SealedRecord):
    """One decision about a rollout."""

    WHAT: ClassVar[str] = "the record of a rollout"

    version: Literal[1] = 1
    id: str = Field(min_length=1, description="Drawn by the writer, to recognise its own record.")
    line: str = Field(description="tenant.dataset-name.recipe-name.")
    kind: RecordKind
    rollout: str = Field(min_length=1, description="Id of the record that started it.")
    candidate: InputRef = Field(description="Address and content digest.")
    incumbent: InputRef = Field(description="What stood in production when it started.")
    base: InputRef | None = added_field(None, description="The candidate's base model; null in records without it.")
    plan: RolloutPlan
    weight: int = Field(ge=0, le=WHOLE, description="Percent of the traffic that the candidate has from now on.")
    evidence: list[Evidence] = Field(description="What outcomes said; empty where nothing was looked at.")
    findings: list[str] = Field(description="What the checks of a promotion found, where they ran.")
    actor: str = Field(min_length=1, description="Who decided; `auto` where the evidence did.")
    reason: str = Field(min_length=1, description="Why.")
    at: str = Field(min_length=1, description="UTC, ISO 8601.")

    @property
    def path(self) -> str:
        return f"{_folder(self.line)}/{self.seq:06d}.json"

    @property
    def going(self) -> bool:
        """Whether the rollout is open after this record."""
        return self.kind in ("started", "advanced")

    @property
    def shadowing(self) -> bool:
        """Whether requests are copied to the candidate from now on, which answers none."""
        return self.going and self.weight == 0

    @property
    def share(self) -> str:
        """The candidate's share of the traffic from now on, in words."""
        return f"{self.plan.shadow} % copied" if self.shadowing else f"{self.weight} %"


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """One rollout: its records, in order."""

    records: tuple[RolloutRecord, ...]

    @property
    def started(self) -> RolloutRecord:
        return self.records[0]

    @property
    def last(self) -> RolloutRecord:
        return self.records[-1]

    @property
    def live_at(self) -> str:
        """Since when the candidate answers requests; it must answer some."""
        return next(record.at for record in self.records if record.weight)

    @property
    def next_step(self) -> int:
        """The weight after the present one; the present one must be below 100."""
        return next(step for step in self.last.plan.steps if step > self.last.weight)


@dataclass(frozen=True, kw_only=True)
class RolloutState:
    """The state after a log's records.

    Args:
        rollouts: all of them, in order.
        head: sha256 of the last record, empty for an empty log.
    """

    line: str
    rollouts: tuple[Rollout, ...] = ()
    head: str = ""

    @property
    def length(self) -> int:
        return sum(len(rollout.records) for rollout in self.rollouts)

    @property
    def open(self) -> Rollout | None:
        """The open rollout."""
        return self.rollouts[-1] if self.rollouts and self.rollouts[-1].last.going else None


def fold(line: str, records: Iterable[RolloutRecord], head: str = "") -> RolloutState:
    """The state after the records, in order. Pure."""
    by_rollout: dict[str, list[RolloutRecord]] = {}
    for record in records:
        by_rollout.setdefault(record.rollout, []).append(record)
    rollouts = tuple(Rollout(records=tuple(each)) for each in by_rollout.values())
    return RolloutState(line=line, rollouts=rollouts, head=head)


def read_rollouts(store: Store, line: str) -> RolloutState:
    """The rollouts of a line. Raises CorruptArtifact, which names the file, as ``read_line`` does; Unsigned, too."""
    state = read_unproved(store, line)
    records = (record for rollout in state.rollouts for record in rollout.records)
    # The end of a rollout goes without: it gives the candidate nothing.
    require_decisions_signed(store, ((each, each.candidate) for each in records if each.going))
    return state


def read_unproved(store: Store, line: str) -> RolloutState:
    """As ``read_rollouts``, whoever signed its records: for the one who signs them."""
    records, head = _log(store, check_line(line)).read()
    return fold(line, records, head)


def lines_with_rollouts(store: Store, tenant: str = "") -> list[str]:
    """Lines that had a rollout, of one tenant or of all, sorted."""
    tenants = [tenant] if tenant else store.tenants()
    return sorted(line for name in tenants for line in store.folders(f"{name}/{FOLDER}"))


def append(store: Store, record: RolloutRecord) -> RolloutRecord:
    """Write the record at its place in the log, signed. Raises RolloutLost, which names the winner, if the place is
    taken, and Unsigned where signatures are demanded and this process has no key."""
    if record.going:
        assure_decision_signed(store, record)
    mark_due(store, "rollout", record.line.partition(".")[0], record.path)
    winner = _log(store, record.line).append(record)
    if winner.id == record.id:
        return record
    raise RolloutLost(
        f"concurrent change by {winner.actor}: the rollout was {winner.kind.replace('_', ' ')} at {winner.at} "
        f"({winner.reason})",
        where=record.path,
        remedy=f"Nothing was changed. See ft rollout status {record.line}, and repeat the request if still needed.",
    )


def _log(store: Store, line: str) -> ChainedLog[RolloutRecord]:
    return ChainedLog(store=store, folder=_folder(line), kind=RolloutRecord)


def _folder(line: str) -> str:
    return f"{line.partition('.')[0]}/{FOLDER}/{line}"
