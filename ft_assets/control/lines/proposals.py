"""Proposals: moves to production that wait for a second person, where ``tenants.yaml`` asks for one.

``<tenant>/proposals/<line>/<id>.json`` says who asked for which adapter, and what the checks found.
``<id>/answer.json`` beside it says how it ended. Creating it is the decision, so of several answers one counts.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from ft_assets.control.access.identities import is_of_tenant, person_of
from ft_assets.control.lines.lines import LineState, PromotionRecord, check_line, read_line
from ft_assets.records.sorted_ids import new_id
from ft_resources.artifacts import InputRef
from ft_resources.errors import NotFound, UserError
from ft_resources.records import Record
from ft_resources.store import Store

State = Literal["open", "approved", "declined", "withdrawn", "overtaken"]


class Proposal(Record):
    """Somebody asks for an adapter in production."""

    WHAT: ClassVar[str] = "the proposal"

    version: Literal[1] = 1
    id: str = Field(description="Ids sort by age, the newest first. The record in the line's log has the same.")
    line: str = Field(description="tenant.dataset-name.recipe-name.")
    adapter: InputRef = Field(description="Address and content digest.")
    replaces: str = Field(description="Address of the adapter in production then, empty for none.")
    waive_incumbent: bool = Field(description="Whether an inconclusive comparison is let through.")
    findings: list[str] = Field(description="What the checks found then; they run again at the approval.")
    waived: list[str] = Field(description="Inconclusive checks that would be let through.")
    actor: str = Field(min_length=1, description="Who asks.")
    made_by: str = Field(description="The root of the makers of the key that proved the actor; empty for no key.")
    reason: str = Field(min_length=1, description="Why.")
    at: str = Field(description="UTC, ISO 8601.")


class Answer(Record):
    """How a proposal ended."""

    WHAT: ClassVar[str] = "the answer to a proposal"

    version: Literal[1] = 1
    kind: Literal["approved", "declined", "withdrawn"]
    actor: str = Field(min_length=1, description="Who decided.")
    reason: str = Field(min_length=1, description="Why.")
    at: str = Field(description="UTC, ISO 8601.")


@dataclass(frozen=True, kw_only=True)
class ProposalState:
    """A proposal and its answer; ``state`` is "overtaken" if the line moved on without it."""

    proposal: Proposal
    answer: Answer | None
    state: State


class WaitsForSecondPerson(UserError):
    """The move is allowed by every check, and recorded as ``proposal``: another person has to approve it."""

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        super().__init__(
            f"production of {proposal.line} requires approval by a second person; {proposal.actor} proposed "
            f"{proposal.adapter.address} at {proposal.at[:19]}",
            where=f"proposal {proposal.id}",
            remedy=f'Another promoter can approve it: ft approve {proposal.line} --note "why it is good"',
        )


def propose(store: Store, record: PromotionRecord, *, made_by: str, waive_incumbent: bool) -> Proposal:
    """Record that ``record``'s move waits. Returns the proposal, or the open one of the same adapter."""
    for known in read_proposals(store, record.line):
        same = known.proposal.adapter == record.adapter and known.proposal.waive_incumbent == waive_incumbent
        if same and known.state == "open":
            return known.proposal
    made = Proposal(
        id=new_id(),
        line=record.line,
        adapter=record.adapter,
        replaces=record.replaces,
        waive_incumbent=waive_incumbent,
        findings=record.findings,
        waived=record.waived,
        actor=record.actor,
        made_by=made_by,
        reason=record.reason,
        at=record.at,
    )
    made.create(store, f"{_folder(record.line)}/{made.id}.json")
    return made


def read_proposals(store: Store, line: str) -> list[ProposalState]:
    """All of a line, the newest first."""
    state = read_line(store, check_line(line))
    names = [name.removesuffix(".json") for name in store.names(_folder(line)) if name.endswith(".json")]
    return [_state(store, state, Proposal.get(store, f"{_folder(line)}/{name}.json")) for name in names]


def open_proposal(store: Store, line: str, proposal: str = "") -> ProposalState:
    """The proposal of that id, else the only open one of the line. Raises NotFound, and UserError for several."""
    known = read_proposals(store, line)
    found = [each for each in known if (each.proposal.id == proposal if proposal else each.state == "open")]
    if not found:
        what = f"line {line} has no proposal {proposal}" if proposal else f"line {line} has no pending proposal"
        raise NotFound(what, where="proposal", remedy="Promote to production to propose: ft promote")
    if len(found) > 1:
        ids = ", ".join(each.proposal.id for each in found)
        raise UserError(f"several proposals are pending: {ids}", where=f"line {line}", remedy="Name one of them.")
    return found[0]


def answer(store: Store, proposal: Proposal, answer: Answer) -> Answer:
    """Record how a proposal ended. Returns the answer that counts: another one if somebody was faster."""
    return answer.create_or_get(store, f"{_folder(proposal.line)}/{proposal.id}/answer.json")


def same_person(proposal: Proposal, actor: str, made_by: str) -> bool:
    """Whether ``actor`` made the proposal, or one of both keys comes from the other's holder, or both from one person
    of the tenant. Keys that an operator made for two people are two people's."""
    proposer, person = person_of(proposal.actor), person_of(actor)
    if proposer in (person, person_of(made_by)) or person == person_of(proposal.made_by):
        return True
    return is_of_tenant(made_by) and person_of(made_by) == person_of(proposal.made_by)


def _state(store: Store, line: LineState, proposal: Proposal) -> ProposalState:
    found = Answer.find(store, f"{_folder(proposal.line)}/{proposal.id}/answer.json")
    standing = line.at("production")
    state: State
    if found is not None:
        state = found.kind
    else:
        state = "open" if (standing.adapter.address if standing else "") == proposal.replaces else "overtaken"
    return ProposalState(proposal=proposal, answer=found, state=state)


def _folder(line: str) -> str:
    return f"{line.partition('.')[0]}/proposals/{line}"
