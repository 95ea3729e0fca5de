"""Who asks, as a door proved it."""

from dataclasses import dataclass

from ft_assets.control.access.roles import Role

KEY = "key:"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who asks. ``actor`` is what records keep; ``proof`` says how it was proved: ``key:PREFIX`` of an API key, or
    ``oidc:ISSUER/SUBJECT`` of a sign-in elsewhere."""

    tenant: str
    role: Role
    actor: str
    proof: str
