"""``/v1/ft``: what OpenAI's dialect has no words for: datasets, estimates, gates, lines and usage of a tenant."""

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from ft_assets import api
from ft_assets.api import LineState, PromotionRecord, ProposalState, WaitsForSecondPerson
from ft_assets.server.context import Ctx, Promoter, Viewer
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.names import JOB
from ft_assets.server.owned import own_adapter, own_adapter_of, own_dataset, own_line, own_recipe
from ft_resources.errors import UserError

router = APIRouter(prefix="/v1/ft", route_class=KeyFirst)

_Key = Annotated[str, Field(min_length=1, max_length=200)]
_Reason = Annotated[str, Field(min_length=1, max_length=2000)]


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Pair(_Given):
    """A dataset version and a recipe."""

    dataset: _Key
    recipe: _Key


class Approval(_Given):
    """Why a held version may be used."""

    note: _Reason


class Promotion(_Given):
    """Where the line's last accepted adapter, or ``adapter``, goes and why."""

    to: _Key
    reason: _Reason
    adapter: Annotated[str, Field(max_length=300)] = ""
    waive_incumbent: bool = False


class Refusal(_Given):
    """Why a proposal is not carried out."""

    reason: _Reason


class Rollback(_Given):
    """Why a stage goes back to what stood there before, or to ``adapter``."""

    reason: _Reason
    stage: _Key = "production"
    adapter: Annotated[str, Field(max_length=300)] = ""


@router.get("/datasets")
def list_datasets(context: Ctx, caller: Viewer) -> dict[str, Any]:
    """The tenant's dataset versions, and how each stands."""
    found = api.list_datasets(tenant=caller.tenant, store=context.store)
    return {
        "object": "list",
        "data": [{"id": str(each.key), "object": "ft.dataset", "state": each.state, "why": each.why} for each in found],
    }


@router.get("/datasets/{key}")
def dataset(key: str, context: Ctx, caller: Viewer) -> dict[str, Any]:
    """What curation made of a version."""
    report = api.dataset_report(own_dataset(caller, key), store=context.store)
    return {
        "id": key,
        "object": "ft.dataset",
        "state": report.review.state,
        "held": list(report.review.reasons),
        "left_out": dict(report.left_out),
        "facts": report.artifact.facts,
        "address": str(report.artifact.address),
    }


@router.post("/datasets/{key}/approve")
def approve(key: str, body: Approval, context: Ctx, caller: Promoter) -> dict[str, Any]:
    """Let a held version through."""
    record, _ = api.approve_dataset(
        own_dataset(caller, key),
        note=body.note,
        store=context.store,
        actor=caller.actor,
        orchestrator=context.orchestrator,
    )
    return {"id": key, "object": "ft.approval", "actor": record.actor, "note": record.note}


@router.get("/recipes")
def list_recipes(context: Ctx, caller: Viewer) -> dict[str, Any]:
    """Recipes that the tenant may use: its own, and those of all."""
    own = [each.recipe for each in api.list_recipes(tenant=caller.tenant, store=context.store)]
    data = [{"id": each.key, "object": "ft.recipe", "method": each.method, "base": each.base} for each in own]
    return {"object": "list", "data": data}


@router.post("/estimate")
def estimate(body: Pair, context: Ctx, caller: Viewer) -> dict[str, Any]:
    """What a training would take: steps, tokens, time, memory, GPU-hours and price, and what its gates can show."""
    found = api.estimate(
        own_dataset(caller, body.dataset), own_recipe(context, caller, body.recipe), store=context.store
    )
    bounds = {"memory": found.memory, "gpu_hours": found.gpu_hours, "price": found.price}
    return {
        "object": "ft.estimate",
        "steps": found.steps,
        "tokens": found.tokens,
        "seconds": found.seconds,
        **{name: vars_of(value) for name, value in bounds.items()},
        "currency": found.currency,
        "notes": list(found.notes),
        "settings": [{"path": path, "value": value, "from": origin} for path, value, origin in found.settings],
    }


@router.get("/jobs/{job_id}/gates")
def gates(job_id: str, context: Ctx, caller: Viewer) -> dict[str, Any]:
    """Every gate's verdict on what a job made."""
    state = api.job_state(caller.tenant, job_id.removeprefix(JOB), store=context.store, launcher=context.launcher)
    if state.settled is None or not state.settled.submission:
        raise UserError("nothing was evaluated yet", where="job", remedy="Look again once the job has ended.")
    report = api.show_gates(state.settled.dataset, state.settled.recipe, gates=state.job.gates, store=context.store)
    return {
        "object": "ft.gates",
        "passed": report.passed,
        "ungated": report.ungated,
        "verdicts": [each.model_dump(mode="json") for each in report.verdicts],
        "suggestions": list(report.suggestions),
    }


@router.get("/lines")
def list_lines(context: Ctx, caller: Viewer) -> dict[str, Any]:
    """The tenant's lines, and what stands in each stage."""
    found = api.list_lines(tenant=caller.tenant, store=context.store)
    return {"object": "list", "data": [_line(name, state) for name, state in found]}


@router.get("/lines/{line}")
def line(line: str, context: Ctx, caller: Viewer) -> dict[str, Any]:
    state = api.show_line(own_line(caller, line), store=context.store)
    return {**_line(line, state), "history": [decision_object(each) for each in state.records]}


@router.post("/lines/{line}/promote")
def promote(line: str, body: Promotion, context: Ctx, caller: Promoter, response: Response) -> dict[str, Any]:
    """Move an adapter of a line to a stage, if every check allows it; 202 where a second person has to approve it."""
    target = own_line(caller, line)
    if body.adapter:
        target = own_adapter_of(context, caller, line, body.adapter)
    try:
        record, _ = api.promote(
            target,
            body.to,
            reason=body.reason,
            waive_incumbent=body.waive_incumbent,
            store=context.store,
            actor=caller.actor,
            made_by=api.maker_of(caller, access=context.access),
        )
    except WaitsForSecondPerson as waits:
        response.status_code = 202
        return proposal_object(ProposalState(proposal=waits.proposal, answer=None, state="open"))
    return decision_object(record)


@router.get("/lines/{line}/proposals")
def list_proposals(line: str, context: Ctx, caller: Viewer) -> dict[str, Any]:
    """Moves to production that wait for a second person, or did, the newest first."""
    found = api.list_proposals(own_line(caller, line), store=context.store)
    return {"object": "list", "data": [proposal_object(each) for each in found]}


@router.post("/lines/{line}/proposals/{proposal}/approve")
def approve_promotion(line: str, proposal: str, body: Approval, context: Ctx, caller: Promoter) -> dict[str, Any]:
    """Carry out a proposal as another person than who made it, if every check still allows it."""
    record = api.approve_promotion(
        own_line(caller, line),
        proposal=proposal,
        note=body.note,
        store=context.store,
        actor=caller.actor,
        made_by=api.maker_of(caller, access=context.access),
    )
    return decision_object(record)


@router.post("/lines/{line}/proposals/{proposal}/decline")
def decline_promotion(line: str, proposal: str, body: Refusal, context: Ctx, caller: Promoter) -> dict[str, Any]:
    """End a proposal without moving anything; who made it withdraws it."""
    ended = api.decline_promotion(
        own_line(caller, line),
        proposal=proposal,
        reason=body.reason,
        store=context.store,
        actor=caller.actor,
        made_by=api.maker_of(caller, access=context.access),
    )
    return proposal_object(ended)


@router.post("/lines/{line}/rollback")
def roll_back(line: str, body: Rollback, context: Ctx, caller: Promoter) -> dict[str, Any]:
    """Point a stage of a line back to an adapter that stood there before."""
    record = api.roll_back(
        own_line(caller, line),
        reason=body.reason,
        stage=body.stage,
        to=own_adapter(caller, body.adapter),
        store=context.store,
        actor=caller.actor,
    )
    return decision_object(record)


@router.get("/usage")
def usage(context: Ctx, caller: Viewer, month: str = "") -> dict[str, Any]:
    """What the tenant used and pays in a month (``2026-11``; this one where not given)."""
    found = api.usage(caller.tenant, month=month, store=context.store)
    return {
        "object": "list",
        "data": [{"object": "ft.usage", **vars_of(each.report), "promised_gpu_hours": each.promised} for each in found],
    }


def vars_of(value: Any) -> Any:
    """A dataclass of numbers as JSON; None stays None."""
    return None if value is None else {name: getattr(value, name) for name in value.__dataclass_fields__}


def _line(name: str, state: LineState) -> dict[str, Any]:
    at = {stage: found.adapter.address for stage in api.POINTERS if (found := state.at(stage))}
    return {"id": name, "object": "ft.line", "stages": at}


def decision_object(record: PromotionRecord) -> dict[str, Any]:
    """A record of a line's log."""
    return {
        "object": "ft.decision",
        "line": record.line,
        "kind": record.kind,
        "stage": record.stage,
        "adapter": record.adapter.address,
        "replaces": record.replaces,
        "actor": record.actor,
        "proposed_by": record.proposed_by or None,
        "reason": record.reason,
        "at": record.at,
    }


def proposal_object(found: ProposalState) -> dict[str, Any]:
    """A move to production that somebody proposed."""
    asked, said = found.proposal, found.answer
    return {
        "id": asked.id,
        "object": "ft.proposal",
        "line": asked.line,
        "stage": "production",
        "adapter": asked.adapter.address,
        "replaces": asked.replaces,
        "state": found.state,
        "findings": asked.findings,
        "waived": asked.waived,
        "actor": asked.actor,
        "reason": asked.reason,
        "at": asked.at,
        "answer": None if said is None else {"actor": said.actor, "reason": said.reason, "at": said.at},
    }
