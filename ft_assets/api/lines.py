"""The stages of a line's adapters: promote, roll back, show."""

import logging
from typing import cast

from ft_assets.api.addresses import find_address
from ft_assets.api.defaults import actor_or_user, store_or_default, tenants_or_default
from ft_assets.api.own_keys import own_line, own_pair
from ft_assets.control.lines import lines, promotion, proposals, second_person
from ft_assets.control.lines.lines import POINTERS, STAGES, LineState, Pointer, PromotionRecord, Stage
from ft_assets.control.lines.promotion import Decision, Log
from ft_assets.control.lines.proposals import Proposal as Proposal
from ft_assets.control.lines.proposals import ProposalState
from ft_assets.control.lines.proposals import WaitsForSecondPerson as WaitsForSecondPerson
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts
from ft_resources.errors import UserError
from ft_resources.store import Store

_LOG = logging.getLogger(__name__)


def promote(
    target: str,
    to: str,
    *,
    reason: str,
    waive_incumbent: bool = False,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
    made_by: str = "",
    log: Log = _LOG,
) -> tuple[PromotionRecord, bool]:
    """Move an adapter to a stage, if every check allows it; the record names the actor and is permanent.

    Args:
        target: a line (``tenant.dataset.recipe``), a pair ``DATASET|RECIPE``, or an adapter's address.
        to: dev, staging, production, deprecated or archived.
        reason: why; it is recorded.
        waive_incumbent: waive an inconclusive comparison with the adapter in production.
        made_by: who made the key by which ``actor`` was proved; see ``maker_of``.

    Returns: The record, and False if the adapter was in that stage already.

    Raises:
        UserError: for an unknown target or stage, without a reason, and where a check says no.
        WaitsForSecondPerson: where the tenants file asks for one; its ``proposal`` waits for ``approve_promotion``.
        PromotionLost: where somebody else decided about the line in the same moment.
    """
    store, stage = store_or_default(store), cast(Stage, _known(to, STAGES))
    decision = Decision(
        actor=actor_or_user(actor),
        reason=reason,
        tenants=tenants_or_default(tenants),
        waive_incumbent=waive_incumbent,
        made_by=made_by,
        log=log,
    )
    if "|" in target:
        target = own_pair(store, target)
    else:
        target = str(find_address(target, store=store)) if "/" in target else own_line(target)
    return promotion.promote(Artifacts(store), target, stage, decision)


def roll_back(
    line: str,
    *,
    reason: str,
    stage: str = "production",
    to: str = "",
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
    log: Log = _LOG,
) -> PromotionRecord:
    """Point a line's stage (dev, staging or production) back to an adapter that stood there before.

    ``to`` is its address; without it, the last one. Raises UserError where none stood there, and as ``promote``.
    """
    store, pointer = store_or_default(store), cast(Pointer, _known(stage, POINTERS))
    address = str(find_address(to, store=store)) if to else ""
    decision = Decision(actor=actor_or_user(actor), reason=reason, tenants=tenants_or_default(tenants), log=log)
    return promotion.rollback(Artifacts(store), own_line(line), decision, stage=pointer, to=address)


def approve_promotion(
    line: str,
    *,
    note: str,
    proposal: str = "",
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
    made_by: str = "",
    log: Log = _LOG,
) -> PromotionRecord:
    """Approve the move to production that waits in ``line``, as a second person; all checks run again.

    Args:
        note: why; it is recorded.
        proposal: its id, where several wait.

    Raises NotPermitted for who proposed it, NotFound where nothing waits, and as ``promote``.
    """
    decision = Decision(
        actor=actor_or_user(actor), reason=note, tenants=tenants_or_default(tenants), made_by=made_by, log=log
    )
    return second_person.approve(Artifacts(store_or_default(store)), own_line(line), decision, proposal=proposal)


def decline_promotion(
    line: str, *, reason: str, proposal: str = "", store: Store | None = None, actor: str = "", made_by: str = ""
) -> ProposalState:
    """End a proposal without moving anything; its author withdraws it in the same way. Raises NotFound where nothing
    waits, and UserError for one that was answered."""
    decision = Decision(actor=actor_or_user(actor), reason=reason, made_by=made_by)
    return second_person.decline(Artifacts(store_or_default(store)), own_line(line), decision, proposal=proposal)


def list_proposals(line: str, *, store: Store | None = None) -> list[ProposalState]:
    """Proposed moves of a line to production, the newest first, each with its state."""
    return proposals.read_proposals(store_or_default(store), own_line(line))


def list_lines(*, tenant: str = "", store: Store | None = None) -> list[tuple[str, LineState]]:
    """All lines with a promotion log, and their states."""
    store = store_or_default(store)
    return [(name, lines.read_line(store, name)) for name in lines.list_lines(store, tenant)]


def show_line(line: str, *, store: Store | None = None) -> LineState:
    """A line's history and the adapter in each stage. Raises UserError for an invalid line, BadLog for a broken log."""
    return lines.read_line(store_or_default(store), own_line(line))


def _known(stage: str, known: tuple[str, ...]) -> str:
    if stage not in known:
        raise UserError(f"{stage!r} is not a stage", where="stage", remedy=f"Use {', '.join(known)}.")
    return stage
