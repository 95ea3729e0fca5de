"""What the tenant used and pays, month by month."""

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from ft_assets import api
from ft_assets.server.console.rendering import page
from ft_assets.server.console.session import Viewer
from ft_assets.server.context import Ctx

router = APIRouter(prefix="/usage")


@router.get("")
def usage(request: Request, context: Ctx, person: Viewer, month: str = "") -> Response:
    month = month or f"{datetime.now(UTC):%Y-%m}"
    found = api.usage(person.identity.tenant, month=month, store=context.store)
    return page(request, "usage.html", month=month, usage=found[0] if found else None)
