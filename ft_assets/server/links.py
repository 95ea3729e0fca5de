"""Signed links to report pages, samples and plots: made for who may read them, opened by whoever has them."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import PlainTextResponse, Response

from ft_assets import api
from ft_assets.api import Identity, LinkSignature
from ft_assets.server import rate_limits
from ft_assets.server.context import Ctx, Viewer, caller_of
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.names import JOB
from ft_assets.server.reports import HEADERS
from ft_assets.settings.environment import public_url
from ft_resources.errors import NotFound, NotPermitted, StoreUnavailable, TooManyRequests, UserError, in_sentences

router = APIRouter(route_class=KeyFirst)
_PLATFORM = "platform"
_Text = Annotated[str, Query(max_length=100)]


def _reader(caller: Annotated[Identity, Depends(caller_of)]) -> Identity:
    if caller.role != _PLATFORM:
        api.require_role(caller.role, "viewer")
    return caller


Reader = Annotated[Identity, Depends(_reader)]
"""A tenant's viewer, or the platform's own key: Dagster's pages show reports of all tenants to who has it."""


class LinkWanted(BaseModel):
    """Which page or picture of which artifact."""

    model_config = ConfigDict(extra="forbid")

    artifact: Annotated[str, Field(min_length=1, max_length=300, description="Its address.")]
    file: Annotated[str, Field(min_length=1, max_length=200)] = "report/report.html"


@router.post("/v1/ft/links")
def make(body: LinkWanted, request: Request, context: Ctx, caller: Reader) -> dict[str, Any]:
    """A link that opens the page for 15 minutes, for whoever has it."""
    tenant = "" if caller.role == _PLATFORM else caller.tenant
    link = api.sign_link(tenant, body.artifact, body.file, store=context.store, access=context.access)
    server = public_url() or str(request.base_url).rstrip("/")
    return {"object": "ft.link", "url": f"{server}{link.path}", "expires_at": link.expires_at}


@router.get("/v1/ft/jobs/{job_id}/pages")
def pages(job_id: str, context: Ctx, caller: Viewer) -> dict[str, Any]:
    """What a job left for a browser: reports, samples and plots, each for `POST /v1/ft/links`."""
    state = api.job_state(caller.tenant, job_id.removeprefix(JOB), store=context.store, launcher=context.launcher)
    works = api.job_work(state, store=context.store).works
    return {
        "object": "list",
        "data": [
            {"object": "ft.page", "asset": work.asset, "artifact": str(work.address), "file": file}
            for work in works
            for file in work.pages
        ],
    }


@router.get(f"{api.LINKS}/{{path:path}}")
def page(
    path: str,
    request: Request,
    context: Ctx,
    expires: Annotated[int, Query(ge=0, lt=2**53)] = 0,
    key: _Text = "",
    signature: _Text = "",
) -> Response:
    """The page of a link. No key is asked for: the link is the permission."""
    given = LinkSignature(expires=expires, key=key, signature=signature)
    try:
        found = api.open_link(path, given, store=context.store, access=context.access)
    except NotPermitted as error:
        said = rate_limits.refused(request, context.access, error)
        return _words(said, 429 if isinstance(said, TooManyRequests) else 403)
    except StoreUnavailable:
        raise
    except UserError:
        return _words(NotFound("the page was removed", remedy="Ask the owner of the data."), 404)
    return Response(found.data, media_type=found.media_type, headers=HEADERS)


def _words(error: UserError, status: int) -> Response:
    said = f"{in_sentences(f'{error.what[:1].upper()}{error.what[1:]}', error.remedy)}\n"
    return PlainTextResponse(said, status, headers=HEADERS)
