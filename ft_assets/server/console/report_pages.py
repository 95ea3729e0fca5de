"""The address of a report page that stays the same: it asks who wants the page, and leads to a link that opens it."""

import re

from fastapi import APIRouter
from starlette.responses import RedirectResponse

from ft_assets import api
from ft_assets.server.console.session import Viewer
from ft_assets.server.context import Context, Ctx
from ft_assets.settings.environment import REPORTS

router = APIRouter(prefix="/reports")
_PAGE = re.compile(f"{REPORTS}/(?P<artifact>[^?#]+)/(?P<file>report/[^/?#]+)")


@router.get("/{artifact:path}/report/{name}")
def report(artifact: str, name: str, context: Ctx, person: Viewer) -> RedirectResponse:
    """To the page ``name`` of an artifact of the tenant."""
    return _to_link(context, person.identity.tenant, artifact, f"report/{name}")


def report_for_platform(context: Context, asked: str) -> RedirectResponse | None:
    """To the page at ``asked``, of any tenant, for who has proved to be the platform; None for another page."""
    found = _PAGE.fullmatch(asked)
    return _to_link(context, "", found["artifact"], found["file"]) if found else None


def _to_link(context: Context, tenant: str, artifact: str, file: str) -> RedirectResponse:
    link = api.sign_link(tenant, artifact, file, store=context.store, access=context.access)
    return RedirectResponse(link.path, 303)
