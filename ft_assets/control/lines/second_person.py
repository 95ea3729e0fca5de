"""The second person, who approves or declines a proposed move to production.

All checks run again at the approval. An approval is recorded first and carried out then, so of several answers at one
moment one counts. If the process ends in between, or another move takes the place in the log, the same approval again
carries it out.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from ft_assets.control.lines.lines import PromotionRecord, read_line
from ft_assets.control.lines.promotion import Decision, append_and_mirror, prepare
from ft_assets.control.lines.proposals import Answer, Proposal, ProposalState, answer, open_proposal, same_person
from ft_resources.artifacts import Artifacts
from ft_resources.errors import NotPermitted, UserError
from ft_resources.store import Store


def approve(artifacts: Artifacts, line: str, decision: Decision, *, proposal: str = "") -> PromotionRecord:
    """Carry out a proposal of ``line`` (the one that waits, or that of an id) as another person than who proposed it.

    Raises NotPermitted for the same person, NotFound without a proposal, PromotionLost if another decision about the
    line was first, and UserError for one that has ended or that a check refuses now.
    """
    store, found = artifacts.store, open_proposal(artifacts.store, line, proposal)
    asked = found.proposal
    if (carried := _carried_out(store, asked)) is not None:
        return carried
    if same_person(asked, decision.actor, decision.made_by):
        raise NotPermitted(
            f"{asked.actor} proposed it, so another person must approve it",
            where=f"proposal {asked.id}",
            remedy="Ask another promoter. Keys with the same name, and all keys created by one person, count as one "
            "person.",
        )
    _require_unanswered(found, besides=("approved",))
    as_asked = replace(decision, reason=asked.reason, waive_incumbent=asked.waive_incumbent)
    record, new = prepare(artifacts, asked.adapter.address, "production", as_asked)
    if not new or record.replaces != asked.replaces or record.adapter != asked.adapter:
        # Another approval may have carried it out since the check above.
        if (carried := _carried_out(store, asked)) is not None:
            return carried
        raise UserError(
            f"production of {line} changed after it was proposed: it now has {record.replaces or 'no adapter'}",
            where=f"proposal {asked.id}",
            remedy=f"Propose it again if still needed: ft promote {asked.adapter.address} --to production",
        )
    counts = answer(store, asked, _answer("approved", decision))
    _require_unanswered(replace(found, answer=counts, state=counts.kind), besides=("approved",))
    told = [f"proposed by {asked.actor} at {asked.at}", f"approved by {counts.actor}: {counts.reason}"]
    record = record.model_copy(
        update={
            "id": asked.id,
            "actor": counts.actor,
            "proposed_by": asked.actor,
            "findings": [*record.findings, *told],
        }
    )
    return append_and_mirror(artifacts, record, decision)


def decline(artifacts: Artifacts, line: str, decision: Decision, *, proposal: str = "") -> ProposalState:
    """End a proposal without carrying it out: declined, or withdrawn by who proposed it. Raises UserError for one that
    has ended."""
    found = open_proposal(artifacts.store, line, proposal)
    _require_unanswered(found)
    kind: Literal["withdrawn", "declined"] = (
        "withdrawn" if same_person(found.proposal, decision.actor, decision.made_by) else "declined"
    )
    mine = _answer(kind, decision)
    counts = answer(artifacts.store, found.proposal, mine)
    ended = replace(found, answer=counts, state=counts.kind)
    if counts != mine:
        _require_unanswered(ended)
    return ended


def _carried_out(store: Store, asked: Proposal) -> PromotionRecord | None:
    return next((each for each in read_line(store, asked.line).records if each.id == asked.id), None)


def _require_unanswered(found: ProposalState, besides: tuple[str, ...] = ()) -> None:
    if found.answer is not None and found.answer.kind not in besides:
        said = found.answer
        raise UserError(
            f"{said.actor} has {said.kind} it at {said.at[:19]} ({said.reason})",
            where=f"proposal {found.proposal.id}",
            remedy=f"Propose it again if still needed: ft line {found.proposal.line}",
        )


def _answer(kind: Literal["approved", "declined", "withdrawn"], decision: Decision) -> Answer:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return Answer(kind=kind, actor=decision.actor.strip(), reason=decision.reason.strip(), at=at)
