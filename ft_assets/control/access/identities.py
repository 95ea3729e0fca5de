"""Who asks, as a door proved it."""

import re
from dataclasses import dataclass

from ft_assets.control.access.roles import Role

KEY, OIDC = "key:", "oidc:"
_BY = re.compile(r" \((key [a-z0-9]{12}|in Dagster)\)$")


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who asks. ``actor`` is what records keep; ``proof`` says how it was proved: ``key:PREFIX`` of an API key, or
    ``oidc:ISSUER/SUBJECT`` of a sign-in elsewhere."""

    tenant: str
    role: Role
    actor: str
    proof: str


def actor_of_key(name: str, prefix: str) -> str:
    """What records keep of whoever holds a key."""
    return f"{name} (key {prefix})"


def actor_in_dagster(name: str) -> str:
    """What records keep of whoever runs the deployment, for what was launched on Dagster's pages."""
    return f"{name} (in Dagster)"


def person_of(actor: str) -> str:
    """Whom an actor's name means: of all keys that have one name, and in Dagster, the same person."""
    return _BY.sub("", actor).strip().casefold()
