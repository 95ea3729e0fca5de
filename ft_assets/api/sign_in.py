"""Sign-in of people at the OpenID Connect provider that ``sign_in`` of the tenants file names."""

import os
import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from ft_assets.api.defaults import tenants_or_default
from ft_assets.control.access import oidc
from ft_assets.control.access.api_keys import Access
from ft_assets.control.access.identities import OIDC, Identity
from ft_assets.control.access.roles import Role
from ft_assets.control.access.sign_ins import Choosing, Sent
from ft_assets.settings.environment import public_url
from ft_assets.settings.sign_in import SECRET, SignIn
from ft_assets.settings.tenants import TenantsFile
from ft_resources.errors import Misconfigured, NotIdentified, NotPermitted, UserError

__all__ = ["SignedIn", "begin_sign_in", "choose_tenant", "end_sign_in", "sign_in_name"]

RETURN = "/console/oidc/return"
"""Where the provider sends people back to, below FT_PUBLIC_URL."""


@dataclass(frozen=True, kw_only=True)
class SignedIn:
    """A person who came back, and the page they wanted.

    Args:
        identity: who they are; None while they have to choose.
        tenants: those that they choose from.
        token: to be shown with the choice.
    """

    page: str
    identity: Identity | None = None
    tenants: tuple[str, ...] = ()
    token: str = ""


def sign_in_name(*, tenants: TenantsFile | None = None) -> str:
    """What people sign in with beside a key; "" where no provider is set."""
    found = tenants_or_default(tenants).sign_in
    return found.name if found else ""


def begin_sign_in(page: str, *, access: Access, tenants: TenantsFile | None = None) -> tuple[str, str]:
    """The URL at which a person signs in who then wants ``page``, and what their browser has to keep as a cookie.

    Raises Misconfigured where no provider is set, and DatabaseUnavailable where it does not answer.
    """
    settings = _settings(tenants)
    state, browser, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
    client, provider = _client(settings), _provider(settings.issuer)
    url = oidc.authorization_url(provider, client, state=state, nonce=nonce, verifier=verifier)
    access.remember(state, browser, Sent(nonce=nonce, verifier=verifier, page=page))
    return url, browser


def end_sign_in(
    *, state: str, browser: str, code: str, issuer: str = "", access: Access, tenants: TenantsFile | None = None
) -> SignedIn:
    """Who came back with ``state`` and ``code`` in a browser with the cookie ``browser``.

    ``issuer`` is what the provider says of itself in the URL (RFC 9207), if it does. Raises NotIdentified for anything
    that this server did not begin in this browser, or that the provider does not vouch for; NotPermitted for a person
    whose groups open no tenant; Misconfigured and DatabaseUnavailable.
    """
    settings = _settings(tenants)
    sent = cast(Sent, access.take(state, browser, Sent))
    if issuer not in ("", settings.issuer):
        raise NotIdentified("another provider answered", where="sign-in", remedy="Begin again.")
    if not code:
        raise NotIdentified("the provider denied the sign-in", where="sign-in", remedy="Begin again.")
    claims = oidc.claims_of(
        _provider(settings.issuer), _client(settings), code=code, nonce=sent.nonce, verifier=sent.verifier
    )
    groups = claims.get(settings.claim, [])
    roles = settings.memberships([str(each) for each in groups] if isinstance(groups, list) else [str(groups)])
    # An address that nobody checked may be another person's.
    verified = claims.get("email_verified") is True and isinstance(claims.get("email"), str)
    actor = str(claims["email"] if verified else claims["sub"])[:200]
    proof = f"{OIDC}{settings.issuer}/{claims['sub']}"
    if not roles:
        raise NotPermitted(
            f"no group of {actor} has access to a tenant",
            where="sign-in",
            remedy="Ask the platform's operator to add you to one.",
        )
    if len(roles) == 1:
        ((tenant, role),) = roles.items()
        return SignedIn(page=sent.page, identity=_identity(tenant, role, actor, proof))
    token = secrets.token_urlsafe(32)
    access.remember(token, browser, Choosing(actor=actor, proof=proof, roles=roles, page=sent.page))
    return SignedIn(page=sent.page, tenants=tuple(roles), token=token)


def choose_tenant(token: str, *, browser: str, tenant: str, access: Access) -> SignedIn:
    """The person to whom ``token`` was given, in the tenant that they chose. Raises NotIdentified."""
    found = cast(Choosing, access.take(token, browser, Choosing))
    if tenant not in found.roles:
        raise NotIdentified("you do not belong to this tenant", where="sign-in", remedy="Begin again.")
    return SignedIn(page=found.page, identity=_identity(tenant, found.roles[tenant], found.actor, found.proof))


def _identity(tenant: str, role: str, actor: str, proof: str) -> Identity:
    return Identity(tenant=tenant, role=cast(Role, role), actor=actor, proof=proof)


def _settings(tenants: TenantsFile | None) -> SignIn:
    try:
        found = tenants_or_default(tenants).sign_in
    except UserError as error:
        raise Misconfigured(error.what, where=error.where, remedy=error.remedy) from error
    if found is None:
        raise Misconfigured("no provider is set", where="sign_in", remedy="Write sign_in into tenants.yaml.")
    return found


def _client(settings: SignIn) -> oidc.Client:
    url, secret = public_url(), os.environ.get(SECRET, "")
    for name, value in (("FT_PUBLIC_URL", url), (SECRET, secret)):
        if not value:
            raise Misconfigured(f"{name} is not set", where=name, remedy="Sign-in of people needs it.")
    return oidc.Client(
        issuer=settings.issuer,
        client_id=settings.client_id,
        secret=secret,
        redirect_uri=url + RETURN,
        scopes=settings.scopes,
    )


@lru_cache(maxsize=8)
def _provider(issuer: str) -> oidc.Provider:
    return oidc.Provider(issuer)
