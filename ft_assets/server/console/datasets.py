"""Datasets: their versions, what curation made of each, and letting held ones through."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from ft_assets import api
from ft_assets.server.console.rendering import page
from ft_assets.server.console.session import Fields, Promoter, Viewer
from ft_assets.server.context import Context, Ctx
from ft_assets.server.owned import own_dataset
from ft_resources.errors import HeldForReview, MissingInput, NotFound, UserError

router = APIRouter(prefix="/datasets")


@router.get("")
def list_datasets(request: Request, context: Ctx, person: Viewer) -> Response:
    found = api.list_datasets(tenant=person.identity.tenant, store=context.store)
    return page(request, "datasets.html", datasets=found[::-1])


@router.get("/{key}")
def dataset(request: Request, key: str, context: Ctx, person: Viewer) -> Response:
    key = own_dataset(person.identity, key)
    listed = api.list_datasets(tenant=person.identity.tenant, store=context.store)
    found = next((each for each in listed if str(each.key) == key), None)
    if found is None:
        raise NotFound(f"there is no dataset {key!r}", where="dataset", remedy="List datasets to see them.")
    try:
        report = api.dataset_report(key, store=context.store)
    except (MissingInput, HeldForReview):
        # It is not curated yet, or mixes one in that is not.
        report = None
    return page(
        request, "dataset.html", dataset=found, report=report, before_production=_before_production(context, key)
    )


def _before_production(context: Context, key: str) -> tuple[str, ...]:
    try:
        return api.walls_of_dataset(key, store=context.store)
    except UserError:
        # The page's state says what is wrong with the version.
        return ()


@router.post("/{key}/approve")
def approve(key: str, context: Ctx, person: Promoter, fields: Fields) -> Response:
    api.approve_dataset(
        own_dataset(person.identity, key),
        note=fields.get("reason", ""),
        store=context.store,
        actor=person.identity.actor,
        orchestrator=context.orchestrator,
    )
    return RedirectResponse(f"/console/datasets/{key}", 303)
