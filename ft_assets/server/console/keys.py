"""API keys of the tenant: make one, which is shown once, see them, revoke them."""

from typing import cast

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from ft_assets import api
from ft_assets.api import Role
from ft_assets.server.console.rendering import page
from ft_assets.server.console.session import Admin, Fields
from ft_assets.server.context import Ctx
from ft_resources.errors import NotFound

router = APIRouter(prefix="/keys")
ROLES = {
    "viewer": "view jobs, datasets and lines",
    "member": "also upload files, and start, pause and cancel jobs",
    "promoter": "also approve datasets, and promote and roll back adapters",
    "admin": "also delete models, and create and revoke keys",
}


@router.get("")
def list_keys(request: Request, context: Ctx, person: Admin) -> Response:
    found = api.list_keys(person.identity.tenant, access=context.access)
    return page(request, "keys.html", keys=found, made=None, text="", roles=ROLES)


@router.post("")
def create(request: Request, context: Ctx, person: Admin, fields: Fields) -> Response:
    """Make a key, and show it. The page is kept nowhere, and loading it again asks before it sends again."""
    who = person.identity
    # One that is no role of a tenant's people is refused below, as one that is no role.
    role = fields.get("role", "")
    made, text = api.create_key(
        who.tenant,
        role=cast(Role, role if role in ROLES else f"{role} of a tenant"),
        name=fields.get("name", "").strip(),
        expires=fields.get("expires", "").strip(),
        access=context.access,
        actor=who.maker,
    )
    found = api.list_keys(who.tenant, access=context.access)
    return page(request, "keys.html", keys=found, made=made, text=text, roles=ROLES)


@router.post("/{prefix}/revoke")
def revoke(prefix: str, context: Ctx, person: Admin, fields: Fields) -> Response:
    who = person.identity
    if prefix not in {each.prefix for each in api.list_keys(who.tenant, access=context.access)}:
        raise NotFound(f"there is no key {prefix!r}", where="key", remedy="The list shows all of them.")
    api.revoke_key(prefix, access=context.access, actor=who.actor)
    return RedirectResponse("/console/keys", 303)
