"""Signing in at an OpenID Connect provider: there, back, and the choice of a tenant."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from ft_assets import api
from ft_assets.api import SignedIn
from ft_assets.server import rate_limits
from ft_assets.server.console.rendering import page
from ft_assets.server.console.session import by_tls, form_of, set_session
from ft_assets.server.console.sign_in import own_page, ways
from ft_assets.server.context import Context, Ctx
from ft_resources.errors import NotIdentified, in_sentences

router = APIRouter(prefix="/oidc")
_NAME, _TLS_NAME = "ft-sign-in", "__Host-ft-sign-in"
_LIFETIME_S = 600
_Text = Annotated[str, Query(max_length=4000)]


@router.get("")
def begin(request: Request, context: Ctx, next: _Text = "") -> Response:
    """Send the person to the provider."""
    rate_limits.count_stranger(request, context.access)
    url, browser = api.begin_sign_in(own_page(next), access=context.access)
    response = RedirectResponse(url, 303)
    # Lax: strict cookies are not sent on the way back from the provider's page.
    response.set_cookie(
        _cookie(request), browser, max_age=_LIFETIME_S, path="/", secure=by_tls(request), httponly=True, samesite="lax"
    )
    return response


@router.get("/return")
def end(request: Request, context: Ctx, state: _Text = "", code: _Text = "", iss: _Text = "") -> Response:
    """The person is back: a session, or the choice of a tenant."""
    rate_limits.count_stranger(request, context.access)
    request.state.noted = True
    browser = request.cookies.get(_cookie(request), "")
    try:
        found = api.end_sign_in(state=state, browser=browser, code=code, issuer=iss, access=context.access)
        if found.identity is None:
            return page(request, "choose_tenant.html", tenants=found.tenants, choice=found.token)
        return _let_in(request, context, found)
    except NotIdentified as error:
        return page(request, "sign_in.html", code=401, next="", ways=ways(), wrong=in_sentences(error.what))


@router.post("/tenant")
async def choose(request: Request, context: Ctx) -> Response:
    """A session in the tenant that the person chose."""
    form = await form_of(request)
    token, tenant = (form.get(name, "") for name in ("token", "tenant"))
    browser = request.cookies.get(_cookie(request), "")

    def chosen() -> Response:
        found = api.choose_tenant(token, browser=browser, tenant=tenant, access=context.access)
        return _let_in(request, context, found)

    try:
        return await run_in_threadpool(chosen)
    except NotIdentified as error:
        return page(request, "sign_in.html", code=401, next="", ways=ways(), wrong=in_sentences(error.what))


def _let_in(request: Request, context: Context, found: SignedIn) -> Response:
    assert found.identity is not None
    request.state.caller = found.identity
    token = api.open_session(found.identity, store=context.store, access=context.access)
    response = RedirectResponse(own_page(found.page), 303)
    set_session(request, response, token)
    response.delete_cookie(_cookie(request), path="/", secure=by_tls(request), httponly=True, samesite="lax")
    return response


def _cookie(request: Request) -> str:
    return _TLS_NAME if by_tls(request) else _NAME
