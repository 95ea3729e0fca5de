"""``/v1/models/{id}/deploy``, ``/v1/adapters/{id}/promote`` and the ways back: promotions, asked for by the model."""

import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field

from ft_assets import api
from ft_assets.api import Identity, ProposalState, WaitsForSecondPerson
from ft_assets.server.context import Context, Ctx, Promoter
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.models_asked import made_by_job
from ft_assets.server.names import JOB, job_of_model
from ft_assets.server.owned import own_adapter, own_line
from ft_assets.server.platform import decision_object, proposal_object
from ft_assets.server.specified.strict import KNOWN_QUERY, Given
from ft_resources.errors import NotFound, UserError

router = APIRouter(route_class=KeyFirst, dependencies=[KNOWN_QUERY])
_FINGERPRINT = re.compile(r"[0-9a-f]{8,64}")
_Reason = Annotated[str, Field(max_length=2000)]
_Stage = Literal["dev", "staging", "production"]


class Deployment(Given):
    """Where the model goes. There is one pool: the servers that have the model's base."""

    stage: _Stage
    serving_pool: Literal["default"] = "default"
    reason: _Reason = ""


class Return(Given):
    """From which stage the model goes, for the one that stood there before."""

    stage: _Stage = "production"
    reason: _Reason = ""


class Deprecation(Given):
    """Why the model may not be promoted again."""

    reason: _Reason = ""


def deploy(
    name: str, body: Deployment, request: Request, context: Ctx, caller: Promoter, response: Response
) -> dict[str, Any]:
    """Move a model to a stage of its line, if every check allows it; 202 where a second person has to approve it."""
    try:
        record, _ = api.promote(
            _target(name, context, caller),
            body.stage,
            reason=body.reason or _asked(request),
            store=context.store,
            actor=caller.actor,
            made_by=api.maker_of(caller, access=context.access),
        )
    except WaitsForSecondPerson as waits:
        response.status_code = 202
        return proposal_object(ProposalState(proposal=waits.proposal, answer=None, state="open"))
    return {**decision_object(record), "serving_pool": body.serving_pool}


def roll_back(
    name: str, request: Request, context: Ctx, caller: Promoter, body: Return | None = None
) -> dict[str, Any]:
    """Point the model's stage back to the adapter that stood there before it."""
    body = body or Return()
    address = _adapter(name, context, caller, stage=body.stage)
    line = api.find_adapter(address, store=context.store).facts["line"]
    standing = api.show_line(line, store=context.store).at(body.stage)
    if standing is None or standing.adapter.address != address:
        raise UserError(
            f"the model is not in {body.stage}",
            where="model",
            remedy=f"There is {standing.adapter.address}: name this one." if standing else "Nothing is there.",
        )
    record = api.roll_back(
        line, reason=body.reason or _asked(request), stage=body.stage, store=context.store, actor=caller.actor
    )
    return decision_object(record)


def deprecate(
    name: str, request: Request, context: Ctx, caller: Promoter, body: Deprecation | None = None
) -> dict[str, Any]:
    """Let the model not be promoted again. Where it stands it stays until another takes its place."""
    record, _ = api.promote(
        _adapter(name, context, caller),
        "deprecated",
        reason=(body or Deprecation()).reason or _asked(request),
        store=context.store,
        actor=caller.actor,
    )
    return decision_object(record)


for place, promoted in (("/v1/models", "deploy"), ("/v1/adapters", "promote"), ("/adapters", "promote")):
    router.post(f"{place}/{{name:path}}/{promoted}")(deploy)
    router.post(f"{place}/{{name:path}}/rollback")(roll_back)
    router.post(f"{place}/{{name:path}}/deprecate")(deprecate)


def _target(name: str, context: Context, caller: Identity) -> str:
    """The target that ``promote`` takes, by a model's name. Raises NotFound, also for another tenant's."""
    if name.count(".") == 2 and not re.search(r"[:/@]", name):
        # Of a line that which stands one stage below, or its only one: nothing may be in production yet.
        return _own_line(name, caller)
    return _adapter(name, context, caller)


def _adapter(name: str, context: Context, caller: Identity, *, stage: _Stage = "production") -> str:
    """The adapter that a name means, of a line that in ``stage``; a pair where a job ended without one, for ``promote``
    to say why. Raises NotFound."""
    if job_of_model(name):
        state = made_by_job(caller.tenant, name, store=context.store, launcher=context.launcher)
        assert state.outcome is not None
        return state.outcome.adapter
    if name.startswith(JOB):
        return _of_job(name, context, caller)
    if _FINGERPRINT.fullmatch(name):
        name = f"{caller.tenant}/adapter/{name}"
    if "/" in name:
        return str(api.find_address(own_adapter(caller, name), store=context.store))
    return _of_line(name, context, caller, stage)


def _of_line(name: str, context: Context, caller: Identity, stage: _Stage) -> str:
    line, _, version = name.partition("@")
    found = api.show_line(_own_line(line, caller), store=context.store)
    stages: dict[str, _Stage] = {"": stage, **{each: each for each in api.POINTERS}}
    records = [found.at(stages[version])] if version in stages else found.records
    for record in records:
        if record is not None and (version in stages or record.adapter.digest[:16] == version):
            return record.adapter.address
    raise api.no_model(name)


def _own_line(name: str, caller: Identity) -> str:
    try:
        return own_line(caller, name)
    except NotFound:
        # A model is asked for.
        raise api.no_model(name) from None


def _of_job(name: str, context: Context, caller: Identity) -> str:
    state = api.job_state(caller.tenant, name.removeprefix(JOB), store=context.store, launcher=context.launcher)
    if api.model_is_deleted(state, store=context.store):
        raise api.no_model(name)
    if state.outcome is None or state.settled is None:
        raise UserError("the job has not ended yet", where="model", remedy="Ask again once it has.")
    return state.outcome.adapter or f"{state.settled.dataset}|{state.settled.recipe}"


def _asked(request: Request) -> str:
    return f"asked for by {request.method} {request.url.path}"
