"""Report pages under a session: they hold rows of users, so nothing in them may run or load."""

from fastapi import APIRouter
from starlette.responses import Response

from ft_assets import api
from ft_assets.server.console.session import Viewer
from ft_assets.server.context import Ctx
from ft_assets.server.reports import HEADERS
from ft_resources.errors import NotFound, StoreUnavailable, UserError

router = APIRouter(prefix="/reports")


def report_response(data: bytes, media_type: str) -> Response:
    """A page or picture of a report, in a sandbox."""
    return Response(data, media_type=media_type, headers=HEADERS)


@router.get("/{address:path}/report/{name}")
def report(address: str, name: str, context: Ctx, person: Viewer) -> Response:
    """The page ``name`` of an artifact of the tenant."""
    missing = NotFound("there is no such report", where="report", remedy="Open it from its dataset or job.")
    if address.partition("/")[0] != person.identity.tenant:
        raise missing
    try:
        found = api.report_file(address, name, store=context.store)
    except StoreUnavailable:
        raise
    except UserError:
        raise missing from None
    return report_response(found.data, found.media_type)
