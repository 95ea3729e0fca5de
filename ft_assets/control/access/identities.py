"""The proved identity of a caller."""

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
    """The actor that records name for the holder of a key."""
    return f"{name} (key {prefix})"


def actor_in_dagster(name: str) -> str:
    """The actor that records name for the operator, for runs launched on Dagster's pages."""
    return f"{name} (in Dagster)"


def person_of(actor: str) -> str:
    """The person behind an actor's name: keys of one name, and that name in Dagster, are the same person."""
    return _BY.sub("", actor).strip().casefold()
