"""Lines: what stands where, promote, roll back, second persons' approvals, and the history."""

import contextlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from ft_assets import api
from ft_assets.api import POINTERS, Identity, LineState, WaitsForSecondPerson
from ft_assets.server.console.rendering import page
from ft_assets.server.console.session import Fields, Promoter, Viewer
from ft_assets.server.console.tries import box_of_line
from ft_assets.server.context import Context, Ctx
from ft_assets.server.owned import own_adapter, own_adapter_of, own_line
from ft_resources.artifacts import Artifact
from ft_resources.errors import CorruptArtifact, NotFound, UserError

router = APIRouter(prefix="/lines")


@router.get("")
def list_lines(request: Request, context: Ctx, person: Viewer) -> Response:
    """Lines in which something was decided, and those that have an adapter to decide about."""
    tenant = person.identity.tenant
    states = dict(api.list_lines(tenant=tenant, store=context.store))
    waiting = {each.facts["line"] for each in api.list_adapters(tenant=tenant, store=context.store)} - states.keys()
    return page(request, "lines.html", lines=states, waiting=sorted(waiting), stages=POINTERS)


@router.get("/{name}")
def line(request: Request, name: str, context: Ctx, person: Viewer) -> Response:
    state = api.show_line(own_line(person.identity, name), store=context.store)
    listed = api.list_adapters(tenant=person.identity.tenant, store=context.store)
    adapters = [each for each in listed if each.facts["line"] == name][::-1]
    if not adapters and not state.records:
        raise NotFound(f"there is no line {name!r}", where="line", remedy="List lines to see them.")
    proposals = api.list_proposals(name, store=context.store)
    return page(
        request,
        "line.html",
        name=name,
        state=state,
        adapters=adapters,
        stages=POINTERS,
        box=box_of_line(context, person.identity, name, state),
        open=[each for each in proposals if each.state == "open"],
        before_production=_before_production(context, state, adapters),
        **_rollout(context, name),
    )


def _before_production(context: Context, state: LineState, adapters: Sequence[Artifact]) -> tuple[str, ...]:
    """Reasons that keep the newest adapter out of production today; nothing of one that stands there."""
    at = state.at("production")
    if not adapters or (at is not None and at.adapter.address == str(adapters[0].address)):
        return ()
    try:
        return api.walls_of_adapter(str(adapters[0].address), store=context.store)
    except UserError:
        # Its base is gone: a promotion says so.
        return ()


def _rollout(context: Context, line: str) -> dict[str, Any]:
    """How the line's rollouts stand. Those that cannot be read hide no button: production may have to go back."""
    try:
        return {"rollout": api.show_rollout(line, store=context.store), "trouble": ""}
    except CorruptArtifact as error:
        return {"rollout": None, "trouble": str(error)}


@router.post("/{name}/promote")
def promote(name: str, context: Ctx, person: Promoter, fields: Fields) -> Response:
    who = person.identity
    target = own_adapter_of(context, who, own_line(who, name), fields.get("adapter", ""))
    # The line's page shows what waits for whom.
    with contextlib.suppress(WaitsForSecondPerson):
        api.promote(target, fields.get("stage", ""), reason=fields.get("reason", ""), **_by(context, who))
    return _back(name)


@router.post("/{name}/rollback")
def roll_back(name: str, context: Ctx, person: Promoter, fields: Fields) -> Response:
    who = person.identity
    api.roll_back(
        own_line(who, name),
        reason=fields.get("reason", ""),
        stage=fields.get("stage", ""),
        to=own_adapter(who, fields.get("adapter", "")),
        store=context.store,
        actor=who.actor,
    )
    return _back(name)


@router.post("/{name}/proposals/{proposal}/{answer}")
def answer(name: str, proposal: str, answer: str, context: Ctx, person: Promoter, fields: Fields) -> Response:
    """Approve or decline a move that waits for a second person."""
    who, said = person.identity, fields.get("reason", "")
    line = own_line(who, name)
    if answer == "approve":
        api.approve_promotion(line, proposal=proposal, note=said, **_by(context, who))
    elif answer == "decline":
        api.decline_promotion(line, proposal=proposal, reason=said, **_by(context, who))
    else:
        raise NotFound("a proposal is approved or declined", where="line", remedy="Open the line's page.")
    return _back(name)


def _by(context: Context, who: Identity) -> dict[str, Any]:
    made_by = api.maker_of(who, access=context.access)
    return {"store": context.store, "actor": who.actor, "made_by": made_by}


def _back(name: str) -> Response:
    return RedirectResponse(f"/console/lines/{quote(name)}", 303)
