"""``/v1/ft/keys`` and ``/v1/ft/audit``: for admins of a tenant, and for the platform's own keys, which mean all."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from ft_assets import api
from ft_assets.api import ApiKey, AuditEntry, Role
from ft_assets.server.confined import tenant_asked_for
from ft_assets.server.context import Administrator, Caller, Ctx
from ft_assets.server.key_first import KeyFirst
from ft_assets.settings.keys import SHARED
from ft_resources.errors import NotFound, UserError

router = APIRouter(prefix="/v1/ft", route_class=KeyFirst)
_PLATFORM = "platform"


class CreateKey(BaseModel):
    """A key that is wanted. ``tenant`` is given by keys of the platform only."""

    model_config = ConfigDict(extra="forbid")

    role: Role = "member"
    name: Annotated[str, Field(max_length=100)] = ""
    expires: Annotated[str, Field(max_length=10)] = Field(
        default="", description="Lifetime, such as 90d; empty: no expiry."
    )
    tenant: Annotated[str, Field(max_length=100)] = ""


@router.get("/whoami")
def whoami(caller: Caller) -> dict[str, Any]:
    """Whose key it is that asks."""
    tenant = None if caller.tenant == SHARED else caller.tenant
    return {"object": "ft.identity", "tenant": tenant, "role": caller.role, "actor": caller.actor}


@router.post("/keys")
def create(body: CreateKey, context: Ctx, caller: Administrator) -> dict[str, Any]:
    """Make a key. The answer has its text, which nobody can see again."""
    tenant = tenant_asked_for(caller, body.tenant)
    if not tenant:
        raise UserError("no tenant is named", where="tenant", remedy="Name the tenant of the key.")
    if caller.role != _PLATFORM:
        api.require_role(caller.role, body.role)
    key, text = api.create_key(
        tenant, role=body.role, name=body.name, expires=body.expires, access=context.access, actor=caller.maker
    )
    return {**_key(key), "key": text}


@router.get("/keys")
def list_keys(
    context: Ctx, caller: Administrator, tenant: Annotated[str, Query(max_length=100)] = ""
) -> dict[str, Any]:
    """Keys without their secrets, the newest first: of the caller's tenant; the platform's see all, or one tenant's."""
    found = api.list_keys(tenant_asked_for(caller, tenant), access=context.access)
    return {"object": "list", "data": [_key(each) for each in found]}


@router.delete("/keys/{prefix}")
def revoke(prefix: str, context: Ctx, caller: Administrator) -> dict[str, Any]:
    """Refuse a key from now on."""
    known = api.list_keys(tenant_asked_for(caller, ""), access=context.access)
    if prefix not in {each.prefix for each in known}:
        raise NotFound(f"there is no key {prefix!r}", where="key", remedy="List keys to see them.")
    return _key(api.revoke_key(prefix, access=context.access, actor=caller.actor))


@router.get("/audit")
def audit(
    context: Ctx,
    caller: Administrator,
    tenant: Annotated[str, Query(max_length=100)] = "",
    after: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """Changes that were asked for and refusals, the newest first; ``after`` is the ``seq`` of the last one seen. For
    the platform without ``tenant``: what came without a valid key. 500 where the log was changed."""
    found = api.audit_page(tenant_asked_for(caller, tenant), before=after, limit=limit + 1, access=context.access)
    return {"object": "list", "data": [_entry(each) for each in found[:limit]], "has_more": len(found) > limit}


def _key(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.prefix,
        "object": "ft.key",
        "tenant": None if key.tenant == SHARED else key.tenant,
        "role": key.role,
        "name": key.name,
        "state": key.state,
        "created_at": int(key.created_at),
        "created_by": key.created_by,
        "expires_at": None if key.expires_at is None else int(key.expires_at),
        "revoked_at": None if key.revoked_at is None else int(key.revoked_at),
        "revoked_by": key.revoked_by or None,
    }


def _entry(entry: AuditEntry) -> dict[str, Any]:
    return {"object": "ft.request", **asdict(entry)}
