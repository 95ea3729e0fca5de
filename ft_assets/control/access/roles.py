"""Roles, each of which may do what the one before it may, and more."""

from typing import Literal, get_args

from ft_resources.errors import NotPermitted

Role = Literal["viewer", "member", "promoter", "admin"]
"""A viewer reads, a member uploads and trains, a promoter also decides about lines, an admin also deletes."""
ROLES: tuple[Role, ...] = get_args(Role)


def require_role(role: Role, needed: Role) -> None:
    """Raise NotPermitted where ``role`` may less than ``needed``."""
    if ROLES.index(role) < ROLES.index(needed):
        raise NotPermitted(
            f"this needs the role {needed}, and the key has the role {role}",
            where="API key",
            remedy=f"Use a key of the role {needed}; an administrator of the tenant can make one.",
        )
