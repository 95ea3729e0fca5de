"""API keys of tenants, and sessions of people: make, list and end them, and identify their holders."""

import hashlib
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address, ip_network

from ft_assets.api.defaults import actor_or_user, tenants_or_default
from ft_assets.control.access.api_keys import Access, ApiKey, access_url
from ft_assets.control.access.audit import Asked as ApiRequest
from ft_assets.control.access.audit import Entry as AuditEntry
from ft_assets.control.access.identities import Identity
from ft_assets.control.access.rate_limits import Allowance, Limit
from ft_assets.control.access.roles import PLATFORM, Role, require_role
from ft_assets.records.tombstones import Subject, find_tombstone
from ft_assets.settings.keys import check_tenant
from ft_assets.settings.tenants import TenantsFile
from ft_resources.errors import Misconfigured, NotIdentified, UserError
from ft_resources.store import Store

__all__ = [
    "Access",
    "Allowance",
    "ApiKey",
    "ApiRequest",
    "AuditEntry",
    "Identity",
    "Role",
    "admit",
    "audit",
    "audit_page",
    "count_request",
    "count_wrong_key",
    "create_key",
    "end_session",
    "identify",
    "list_keys",
    "maker_of",
    "open_access",
    "open_session",
    "require_not_erased",
    "require_role",
    "revoke_key",
    "session",
]

_WRONG_KEYS_PER_MINUTE = 60
_UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def open_access(url: str = "") -> Access:
    """The access database at ``url`` (default: ``FT_ACCESS_DB``). Raises UserError if it does not answer."""
    return Access(url or access_url())


def create_key(
    tenant: str,
    *,
    role: Role = "member",
    name: str = "",
    expires: str = "",
    access: Access | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
) -> tuple[ApiKey, str]:
    """Make a key of ``tenant``; the second value is its text, which cannot be shown again.

    Args:
        role: viewer, member, promoter or admin; platform for keys of the platform's own, of the tenant ``shared``.
        name: whom or what it is for, which records show as the actor. Default: the role.
        expires: a number and h, d or w, such as ``90d``. Default: never.

    Raises UserError for a wrong argument, and if the access database does not answer.
    """
    found = re.fullmatch(r"([1-9][0-9]{0,4})([hdw])", expires)
    if expires and found is None:
        raise UserError(f"{expires!r} is not a duration", where="expires", remedy="Write a number and h, d or w: 90d.")
    lifetime_s = int(found[1]) * _UNITS[found[2]] if found else None
    tenants_or_default(tenants).require_tenant(tenant)
    who = actor_or_user(actor)
    return (access or open_access()).create_key(tenant, role, name=name or role, created_by=who, lifetime_s=lifetime_s)


def identify(text: str, *, store: Store, access: Access, tenants: TenantsFile | None = None) -> Identity:
    """Who holds the key ``text``. Raises NotIdentified if it is unknown, expired, revoked, or of a tenant that no
    longer exists; Misconfigured for a tenants file that cannot be read."""
    found = access.identify(text)
    _require_tenant(found.tenant, "API key", store=store, tenants=tenants)
    return found


def admit(
    text: str, *, access: Access, require_there: Callable[[str], None], tenants: TenantsFile | None = None
) -> tuple[Identity, Allowance | None]:
    """Who holds the key ``text``, and how many requests they have left after this one: ``identify`` and
    ``count_request`` at once. ``require_there`` raises NotIdentified for a tenant that was erased. Raises as
    ``identify`` does."""
    file = _tenants_of_the_platform(tenants)
    found, left = access.admit(text, lambda identity: _limits_of(identity, file))
    _require_listed(found.tenant, "API key", file)
    require_there(found.tenant)
    return found, _nearest(left)


def open_session(identity: Identity, *, store: Store, access: Access, tenants: TenantsFile | None = None) -> str:
    """The token of a new 12-hour session for a person who was identified. Raises as ``identify`` does."""
    if identity.role == PLATFORM:
        raise NotIdentified(
            "a platform key does not belong to a tenant", where="sign-in", remedy="Use a key of the tenant."
        )
    _require_tenant(identity.tenant, "sign-in", store=store, tenants=tenants)
    return access.open_session(identity)


def session(token: str, *, store: Store, access: Access, tenants: TenantsFile | None = None) -> Identity:
    """Who holds a session's token. Raises NotIdentified if it is unknown, if it or the key that opened it has ended, or
    if its tenant no longer exists; Misconfigured for a tenants file that cannot be read."""
    found = access.session(token)
    _require_tenant(found.tenant, "session", store=store, tenants=tenants)
    return found


def end_session(token: str, *, access: Access) -> None:
    """Refuse a session's token from now on. An unknown token is ignored."""
    access.end_session(token)


def count_request(identity: Identity, *, access: Access, tenants: TenantsFile | None = None) -> Allowance | None:
    """Count one request of ``identity`` and of its tenant. Returns the limit of the two that is closer to being
    reached; None if the tenants file sets neither. The request is refused if the result has ``retry_s``."""
    return _nearest(access.count(_limits_of(identity, tenants_or_default(tenants))))


def count_wrong_key(peer: str, *, access: Access) -> Allowance:
    """Count one request without a valid key from the address ``peer``; 60 a minute are allowed."""
    with suppress(ValueError):
        address = ip_address(peer)
        # One person has a whole network of IPv6 addresses.
        peer = str(ip_network((address, 64), strict=False)) if address.version == 6 else peer
    return access.count([Limit(subject=f"peer:{peer[:100]}", per_minute=_WRONG_KEYS_PER_MINUTE)])[0]


def require_not_erased(tenant: str, *, where: str = "API key", store: Store) -> None:
    """Raise NotIdentified where ``tenant`` was erased."""
    if find_tombstone(store, Subject.of_tenant(tenant)) is not None:
        raise NotIdentified("the tenant was erased", where=where, remedy="Ask the platform's operator.")


def _require_tenant(tenant: str, where: str, *, store: Store, tenants: TenantsFile | None) -> None:
    """Raise NotIdentified where ``tenant`` was erased, or is not one of the file's where those are all."""
    file = _tenants_of_the_platform(tenants)
    require_not_erased(tenant, where=where, store=store)
    _require_listed(tenant, where, file)


def _tenants_of_the_platform(given: TenantsFile | None) -> TenantsFile:
    try:
        return tenants_or_default(given)
    except UserError as error:
        raise Misconfigured(error.what, where=error.where, remedy=error.remedy) from error


def _require_listed(tenant: str, where: str, file: TenantsFile) -> None:
    try:
        file.require_tenant(tenant)
    except UserError as error:
        raise NotIdentified(error.what.partition(";")[0], where=where, remedy="Ask the platform's operator.") from error


def _limits_of(identity: Identity, file: TenantsFile) -> list[Limit]:
    tier = file.tier_of(identity.tenant)
    # The tenant's limit first, see ``rate_limits``. Proofs may be longer than the table's names.
    one = hashlib.sha256(identity.proof.encode()).hexdigest()
    asked = ((f"tenant:{identity.tenant}", tier.requests_per_minute), (f"one:{one}", tier.requests_per_minute_of_one))
    return [Limit(subject=subject, per_minute=most) for subject, most in asked if most is not None]


def _nearest(left: Sequence[Allowance]) -> Allowance | None:
    """The limit that is reached first."""
    return min(left, key=lambda each: (-each.retry_s, each.remaining), default=None)


def maker_of(identity: Identity, *, access: Access) -> str:
    """The person at the root of the makers of the key that proved ``identity``; "" if no key did. Neither this person
    nor another key of theirs can approve as the second one."""
    return access.maker_of(identity.proof)


def list_keys(tenant: str = "", *, access: Access | None = None) -> list[ApiKey]:
    """The keys of ``tenant``, or of all, the newest first. Raises UserError for an invalid tenant name."""
    if tenant:
        check_tenant(tenant)
    return (access or open_access()).list_keys(tenant)


def revoke_key(prefix: str, *, access: Access | None = None, actor: str = "") -> ApiKey:
    """Refuse a key from now on. ``prefix`` is the part of it that lists show. Raises UserError for an unknown one."""
    prefix = prefix.removeprefix("ft-").partition("-")[0]
    return (access or open_access()).revoke_key(prefix, revoked_by=actor_or_user(actor))


def audit(tenant: str = "", *, access: Access | None = None) -> list[AuditEntry]:
    """Changes to a tenant's data that were requested over HTTP, and refused requests, the oldest first. The tenant ""
    stands for requests without a valid key. Raises CorruptArtifact if the log was altered."""
    return (access or open_access()).audit(tenant)


def audit_page(
    tenant: str = "", *, before: int | None = None, limit: int = 100, access: Access | None = None
) -> list[AuditEntry]:
    """At most ``limit`` entries of ``audit``, the newest first; with ``before``, only entries with smaller numbers."""
    return (access or open_access()).audit_page(tenant, before=before, limit=limit)
