"""``/v1/models``: what can be fine-tuned, and what was."""

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends

from ft_assets import api
from ft_assets.api import JobState
from ft_assets.server.context import Admin, Context, Ctx, Viewer
from ft_assets.server.names import job_of_model, model_name
from ft_assets.settings.models import models_path
from ft_resources.errors import NotFound

router = APIRouter(prefix="/v1/models")


def offered_models() -> dict[str, Any]:
    """Objects of the catalogue's models, by name."""
    file = models_path()
    at = int(file.stat().st_mtime) if Path(file).exists() else 0
    return {
        name: {"id": name, "object": "model", "created": at, "owned_by": "platform", "description": model.description}
        for name, model in api.offered_models().models.items()
    }


def made_model(state: JobState) -> dict[str, Any]:
    """OpenAI's model object of what a job made."""
    assert state.outcome is not None
    return {
        "id": model_name(state),
        "object": "model",
        "created": int(state.job.created_at),
        "owned_by": state.job.tenant,
        "ft": {"adapter": state.outcome.adapter, "gates": str(state.outcome.status), "base": state.job.model},
    }


@router.get("")
def list_models(
    context: Ctx, caller: Viewer, offered: Annotated[dict[str, Any], Depends(offered_models)]
) -> dict[str, Any]:
    """The catalogue, and the tenant's own models, the newest first."""
    states = (
        api.job_state(caller.tenant, job_id, store=context.store, launcher=context.launcher)
        for job_id in api.job_ids(caller.tenant, store=context.store)
    )
    kept = (each for each in states if model_name(each) and not api.model_is_deleted(each, store=context.store))
    return {"object": "list", "data": [*map(made_model, kept), *offered.values()]}


@router.get("/{name:path}")
def retrieve(
    name: str, context: Ctx, caller: Viewer, offered: Annotated[dict[str, Any], Depends(offered_models)]
) -> dict[str, Any]:
    if name in offered:
        found: dict[str, Any] = offered[name]
        return found
    return made_model(_own(context, caller.tenant, name))


@router.delete("/{name:path}")
def delete(name: str, context: Ctx, caller: Admin) -> dict[str, Any]:
    """Delete a model: nothing new is made of it, and after the time of grace its bytes go."""
    state = _own(context, caller.tenant, name)
    api.delete_model(state, name=name, store=context.store, actor=caller.actor)
    return {"id": name, "object": "model", "deleted": True}


def _own(context: Context, tenant: str, name: str) -> JobState:
    """The job that made a model of the tenant. Raises NotFound, also for another tenant's and a deleted one."""
    missing = NotFound(f"there is no model {name!r}", where="model", remedy="List models to see them.")
    try:
        state = api.job_state(tenant, job_of_model(name), store=context.store, launcher=context.launcher)
    except NotFound:
        raise missing from None
    if model_name(state) != name or api.model_is_deleted(state, store=context.store):
        raise missing
    return state
