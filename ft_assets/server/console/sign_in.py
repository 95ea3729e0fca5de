"""Signing in and out."""

import re
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from ft_assets import api
from ft_assets.server import rate_limits
from ft_assets.server.console.rendering import page
from ft_assets.server.console.report_pages import report_for_platform
from ft_assets.server.console.session import (
    Fields,
    drop_session,
    form_of,
    may_be_person,
    set_session,
    token_of,
)
from ft_assets.server.context import Ctx
from ft_resources.errors import NotIdentified, in_sentences

router = APIRouter()
_HOME = "/console/jobs"
_OWN_PAGE = re.compile(r"/console/[A-Za-z0-9._~/?=&%|+-]*")


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to sign in beside a key: what its link says, and where it leads."""

    label: str
    path: str


def ways(asked: str = "") -> tuple[Way, ...]:
    """The ways that this server offers beside an API key, for who wants the page ``asked`` afterwards."""
    name = api.sign_in_name()
    return (Way(label=name, path=f"/console/oidc?{urlencode({'next': own_page(asked)})}"),) if name else ()


def own_page(asked: str) -> str:
    """``asked`` where it is a page of the console, else its first page."""
    leads_out = "//" in asked or ".." in asked
    return asked if _OWN_PAGE.fullmatch(asked) and not leads_out else _HOME


@router.get("/")
async def home(request: Request) -> Response:
    return RedirectResponse(_HOME, 303)


@router.get("/sign-in")
async def sign_in_page(request: Request, next: str = "") -> Response:
    if await may_be_person(request) is not None:
        return RedirectResponse(own_page(next), 303)
    return page(request, "sign_in.html", next=next, ways=await run_in_threadpool(ways, next), wrong="")


@router.post("/sign-in")
async def sign_in(request: Request, context: Ctx) -> Response:
    """A session for who holds a key."""
    form = await form_of(request)
    key, asked = (form.get(name, "") for name in ("key", "next"))

    def opened() -> Response:
        try:
            identity = api.identify(key.strip(), store=context.store, access=context.access)
        except NotIdentified as error:
            raise rate_limits.refused(request, context.access, error) from None
        request.state.caller = identity
        # The platform has no console of its own; Dagster's pages lead it to reports of all tenants.
        if identity.role == "platform" and (to_report := report_for_platform(context, asked)):
            return to_report
        token = api.open_session(identity, store=context.store, access=context.access)
        response = RedirectResponse(own_page(asked), 303)
        set_session(request, response, token)
        return response

    try:
        return await run_in_threadpool(opened)
    except NotIdentified as error:
        return page(request, "sign_in.html", code=401, next=asked, ways=ways(asked), wrong=in_sentences(error.what))


@router.post("/sign-out")
def sign_out(request: Request, context: Ctx, fields: Fields) -> Response:
    api.end_session(token_of(request), access=context.access)
    response = RedirectResponse("/console/sign-in", 303)
    drop_session(request, response)
    return response
