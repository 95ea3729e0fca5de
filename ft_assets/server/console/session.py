"""Who looks at a page: a session's token in a cookie, and a second token in each form that only its own pages know."""

import hashlib
import hmac
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ft_assets import api
from ft_assets.api import Identity, Role
from ft_assets.server import rate_limits
from ft_assets.server.context import context_of
from ft_resources.errors import BadData, NotIdentified, NotPermitted

_NAME, _TLS_NAME = "ft-session", "__Host-ft-session"
_LIFETIME_S = 12 * 3600
FORM_TOKEN = "form_token"
_HEADER = "x-form-token"


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who is signed in. ``form_token`` stands in every form of the pages that they are shown."""

    identity: Identity
    form_token: str

    def may(self, role: Role) -> bool:
        """Whether their role may as much as ``role``."""
        try:
            api.require_role(self.identity.role, role)
        except NotPermitted:
            return False
        return True


def is_same_origin(request: Request) -> bool:
    """Whether a page of this very server sent the request, as every browser says of a POST."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    host = request.headers.get("host", "")
    # Behind a proxy with TLS the server does not know its own scheme.
    known = origin is not None and origin in (f"https://{host}", f"http://{host}")
    return (known and site in (None, "same-origin")) or (origin is None and site == "same-origin")


def set_session(request: Request, response: Response, token: str) -> None:
    """Let the browser keep the token of a new session."""
    response.set_cookie(
        _cookie(request),
        token,
        max_age=_LIFETIME_S,
        path="/",
        secure=by_tls(request),
        httponly=True,
        # Strict would not be sent on the way back from a sign-in elsewhere.
        samesite="lax",
    )


def drop_session(request: Request, response: Response) -> None:
    response.delete_cookie(_cookie(request), path="/", secure=by_tls(request), httponly=True, samesite="lax")


def token_of(request: Request) -> str:
    """The token that the browser showed; "" without one."""
    return request.cookies.get(_cookie(request), "")


def person_of(request: Request) -> Person:
    """Who is signed in; the request is counted. Raises NotIdentified where nobody is, and TooManyRequests."""
    found = known_person(request)
    rate_limits.count(request, context_of(request).access, found.identity)
    return found


def known_person(request: Request) -> Person:
    """Who is signed in. Raises NotIdentified where nobody is."""
    context, token = context_of(request), token_of(request)
    if not token:
        raise NotIdentified("nobody is signed in", where="session", remedy="Sign in first.")
    identity = api.session(token, store=context.store, access=context.access)
    # For the audit log.
    request.state.caller = identity
    request.state.person = Person(identity=identity, form_token=_form_token(token))
    found: Person = request.state.person
    return found


async def fields_of(request: Request, person: Annotated[Person, Depends(person_of)]) -> dict[str, str]:
    """The fields of a form that one of this person's own pages sent. Raises NotPermitted for any other form."""
    fields = await form_of(request)
    require_form_token(person, fields.pop(FORM_TOKEN, request.headers.get(_HEADER, "")))
    return fields


async def form_of(request: Request) -> dict[str, str]:
    """The texts of a form. Raises BadData for one that cannot be read, or that names an encoding other than UTF-8, as
    no browser does: some of them make what is no text, or are no encodings of text."""
    _, options = parse_options_header(request.headers.get("content-type", ""))
    if options.get(b"charset", b"utf-8").lower() != b"utf-8":
        raise BadData("the form is not in UTF-8", where="form", remedy="Send it as a browser does.")
    try:
        found = await request.form()
    except HTTPException as error:
        if error.status_code != HTTPStatus.BAD_REQUEST:
            raise
        # The parser's own words are for programmers.
        raise BadData("the form cannot be read", where="form", remedy="Load the page and send it again.") from error
    return {name: value for name, value in found.items() if isinstance(value, str)}


def require_form_token(person: Person, given: str) -> None:
    """Raise NotPermitted where ``given`` is not the token of this person's session."""
    if not hmac.compare_digest(given.encode(), person.form_token.encode()):
        raise NotPermitted(
            "the form was not sent by a page of this session",
            where="form",
            remedy="Go back, load the page again and send it once more.",
        )


async def may_be_person(request: Request) -> Person | None:
    """Who is signed in; None where nobody is."""
    try:
        return await run_in_threadpool(known_person, request)
    except NotIdentified:
        return None


def _at_least(role: Role) -> Any:
    def permitted(person: Annotated[Person, Depends(person_of)]) -> Person:
        api.require_role(person.identity.role, role)
        return person

    return Depends(permitted)


Viewer = Annotated[Person, _at_least("viewer")]
Member = Annotated[Person, _at_least("member")]
Promoter = Annotated[Person, _at_least("promoter")]
Admin = Annotated[Person, _at_least("admin")]
Fields = Annotated[dict[str, str], Depends(fields_of)]


def _form_token(token: str) -> str:
    """Follows from the session's token and does not tell it."""
    return hmac.new(token.encode(), b"form", hashlib.sha256).hexdigest()


def by_tls(request: Request) -> bool:
    """Whether the browser speaks TLS, with this server or with the proxy before it."""
    # Who says so wrongly harms only themselves: it decides about their own cookie.
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


def _cookie(request: Request) -> str:
    return _TLS_NAME if by_tls(request) else _NAME
