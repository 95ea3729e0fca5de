"""Roles: each includes the rights of the one before it; the platform's role is separate."""

from typing import Literal, get_args

from ft_resources.errors import NotPermitted

Role = Literal["viewer", "member", "promoter", "admin", "platform"]
"""A viewer reads, a member uploads and trains, a promoter also decides about lines, an admin also deletes and makes
keys. The platform's own makes keys for all tenants and opens their reports, and does nothing in their name."""
ROLES: tuple[Role, ...] = get_args(Role)
PLATFORM: Role = "platform"


def require_role(role: Role, needed: Role) -> None:
    """Raise NotPermitted if ``role`` has fewer rights than ``needed``."""
    if role == PLATFORM != needed:
        raise NotPermitted(
            "a platform key cannot act for a tenant",
            where="API key",
            remedy="Use a key of the tenant; POST /v1/ft/keys makes one.",
        )
    if ROLES.index(role) < ROLES.index(needed):
        raise NotPermitted(
            f"this requires the role {needed}; the key has the role {role}",
            where="API key",
            remedy=f"Use a key with the role {needed}; an administrator of the tenant can create one.",
        )
