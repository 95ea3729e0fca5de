"""What happened, and who was told of it."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from ft_assets import api
from ft_assets.server.console.rendering import page
from ft_assets.server.console.session import Viewer
from ft_assets.server.context import Ctx

router = APIRouter(prefix="/notices")


@router.get("")
def notices(request: Request, context: Ctx, person: Viewer) -> Response:
    return page(request, "notices.html", notices=api.list_notices(person.identity.tenant, store=context.store))
