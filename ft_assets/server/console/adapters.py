"""Adapters that were accepted, and where each stands."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from ft_assets import api
from ft_assets.server.console.rendering import page
from ft_assets.server.console.session import Viewer
from ft_assets.server.context import Ctx

router = APIRouter(prefix="/adapters")


@router.get("")
def list_adapters(request: Request, context: Ctx, person: Viewer) -> Response:
    tenant = person.identity.tenant
    found = api.list_adapters(tenant=tenant, store=context.store)[::-1]
    states = dict(api.list_lines(tenant=tenant, store=context.store))
    rows = [
        (each, states[line].stages_of(str(each.address)) if (line := each.facts["line"]) in states else ())
        for each in found
    ]
    return page(request, "adapters.html", adapters=rows)
