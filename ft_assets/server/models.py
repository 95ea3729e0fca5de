"""``/v1/models``: what can be fine-tuned, what was, and what the tenant's lines answer with."""

import logging
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends

from ft_assets import api
from ft_assets.api import FoundModel, JobState
from ft_assets.server.answers.base import answered
from ft_assets.server.answers.models import DeletedModel, Model, Models
from ft_assets.server.context import Admin, Ctx, Viewer
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.models_asked import made_by_job
from ft_assets.server.names import job_of_model, model_name
from ft_assets.settings.models import models_path

_LOG = logging.getLogger(__name__)
router = APIRouter(prefix="/v1/models", route_class=KeyFirst)


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


def line_model(name: str, model: FoundModel) -> dict[str, Any]:
    """OpenAI's model object of the adapter that a line's name means now."""
    return {
        "id": name,
        "object": "model",
        "created": int(datetime.fromisoformat(model.artifact.manifest.created_at).timestamp()),
        "owned_by": model.artifact.address.tenant,
        "ft": {"adapter": str(model.artifact.address), "digest": model.served.digest, "line": model.served.line},
    }


@router.get("", responses=answered(Models))
def list_models(
    context: Ctx, caller: Viewer, offered: Annotated[dict[str, Any], Depends(offered_models)]
) -> dict[str, Any]:
    """What the tenant's lines answer with, its own models, the newest first, and the catalogue."""
    lines = [line_model(*each) for each in api.list_served_models(caller.tenant, store=context.store).items()]
    made = [made_model(each) for each in api.made_models(caller.tenant, store=context.store) if model_name(each)]
    return {"object": "list", "data": [*lines, *made, *offered.values()]}


@router.get("/{name:path}", responses=answered(Model))
def retrieve(
    name: str, context: Ctx, caller: Viewer, offered: Annotated[dict[str, Any], Depends(offered_models)]
) -> dict[str, Any]:
    if name in offered:
        found: dict[str, Any] = offered[name]
        return found
    if not job_of_model(name):
        return line_model(name, api.find_served_model(name, tenant=caller.tenant, store=context.store))
    return made_model(made_by_job(caller.tenant, name, store=context.store, launcher=context.launcher))


@router.delete("/{name:path}", responses=answered(DeletedModel))
def delete(name: str, context: Ctx, caller: Admin) -> dict[str, Any]:
    """Delete a model: nothing new is made of it, and after the time of grace its bytes go."""
    state = made_by_job(caller.tenant, name, store=context.store, launcher=context.launcher)
    api.delete_model(state, name=name, store=context.store, actor=caller.actor)
    return {"id": name, "object": "model", "deleted": True}
