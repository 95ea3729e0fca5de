"""``/v1/models``: what can be fine-tuned, what was, and what the tenant's lines answer with; OpenAI's objects, with
what is specified besides."""

import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query

from ft_assets import api
from ft_assets.api import FoundModel, JobState, ModelCard
from ft_assets.server.answers.base import answered
from ft_assets.server.answers.models import DeletedModel, Model, Models
from ft_assets.server.context import Admin, Context, Ctx, Viewer
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.models_asked import made_by_job
from ft_assets.server.names import job_of_model, model_name
from ft_assets.server.specified.strict import KNOWN_QUERY
from ft_assets.settings.models import models_path

_LOG = logging.getLogger(__name__)
router = APIRouter(prefix="/v1/models", route_class=KeyFirst, dependencies=[KNOWN_QUERY])
_BASE, _MADE = "base", "fine-tuned"


def offered_models() -> dict[str, Any]:
    """Objects of the catalogue's models, by name."""
    file = models_path()
    at = int(file.stat().st_mtime) if Path(file).exists() else 0
    return {
        name: {
            "id": name,
            "object": "model",
            "created": at,
            "owned_by": "platform",
            "type": _BASE,
            "description": model.description,
        }
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
        "type": _MADE,
        "ft": {"adapter": state.outcome.adapter, "gates": str(state.outcome.status), "base": state.job.model},
    }


def line_model(name: str, model: FoundModel) -> dict[str, Any]:
    """OpenAI's model object of the adapter that a line's name means now."""
    return {
        "id": name,
        "object": "model",
        "created": int(datetime.fromisoformat(model.artifact.manifest.created_at).timestamp()),
        "owned_by": model.artifact.address.tenant,
        "type": _MADE,
        "ft": {"adapter": str(model.artifact.address), "digest": model.served.digest, "line": model.served.line},
    }


@router.get("", responses=answered(Models))
def list_models(
    context: Ctx,
    caller: Viewer,
    offered: Annotated[dict[str, Any], Depends(offered_models)],
    type: Literal["base", "fine-tuned"] | None = None,
    base_model: Annotated[str, Query(max_length=300)] = "",
) -> dict[str, Any]:
    """What the tenant's lines answer with, its own models, the newest first, and the catalogue: all of them, those of a
    ``type``, or those of ``base_model``, by its name in the catalogue, its source or its digest."""
    lines = [line_model(*each) for each in api.list_served_models(caller.tenant, store=context.store).items()]
    made = [made_model(each) for each in api.made_models(caller.tenant, store=context.store) if model_name(each)]
    found = [*_with_cards(context, [*lines, *made]), *offered.values()]
    asked_by = {each["ft"]["adapter"]: each["ft"]["base"] for each in made}
    wanted = [
        each
        for each in found
        if type in (None, each["type"]) and (not base_model or base_model in _bases_of(each, asked_by))
    ]
    return {"object": "list", "data": wanted}


@router.get("/{name:path}", responses=answered(Model))
def retrieve(
    name: str, context: Ctx, caller: Viewer, offered: Annotated[dict[str, Any], Depends(offered_models)]
) -> dict[str, Any]:
    if name in offered:
        found: dict[str, Any] = offered[name]
        return found
    if not job_of_model(name):
        model = line_model(name, api.find_served_model(name, tenant=caller.tenant, store=context.store))
    else:
        model = made_model(made_by_job(caller.tenant, name, store=context.store, launcher=context.launcher))
    return _with_cards(context, [model])[0]


@router.delete("/{name:path}", responses=answered(DeletedModel))
def delete(name: str, context: Ctx, caller: Admin) -> dict[str, Any]:
    """Delete a model: nothing new is made of it, and after the time of grace its bytes go."""
    state = made_by_job(caller.tenant, name, store=context.store, launcher=context.launcher)
    api.delete_model(state, name=name, store=context.store, actor=caller.actor)
    return {"id": name, "object": "model", "deleted": True}


def _with_cards(context: Context, models: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Models of adapters, with what is known of these."""
    cards = api.cards_of_models([each["ft"]["adapter"] for each in models], store=context.store)
    return [{**each, **_members(cards.get(each["ft"]["adapter"]))} for each in models]


def _members(card: ModelCard | None) -> dict[str, Any]:
    if card is None:
        return {}
    return {
        "base_model": card.base,
        "base_model_sha": f"sha256:{card.base_sha256}",
        "artifact_uri": card.uri,
        "dataset_version": card.dataset,
        "eval_metrics": dict(card.metrics),
        "stage": card.stage or None,
    }


def _bases_of(model: dict[str, Any], asked_by: Mapping[str, str]) -> set[str]:
    """What the base of a model may be called; ``asked_by``: which models jobs named, by the adapters that they made."""
    if model["type"] == _BASE:
        return {model["id"]}
    source, digest = model.get("base_model") or "", model.get("base_model_sha") or ""
    plain = {source, source.removeprefix("hub:"), asked_by.get(model["ft"]["adapter"], "")}
    names = plain | {each.partition("@")[0] for each in plain}
    return (names | {f"{each}@{digest}" for each in names} | {digest}) - {""}
