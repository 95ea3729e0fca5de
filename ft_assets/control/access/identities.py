"""The proved identity of a caller."""

import re
from dataclasses import dataclass

from ft_assets.control.access.roles import Role

KEY, OIDC = "key:", "oidc:"
_BY = re.compile(r" \((?:key ([a-z0-9]{12})|in Dagster|sign-in)\)$")


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who asks. ``actor`` is what records keep; ``proof`` says how it was proved: ``key:PREFIX`` of an API key, or
    ``oidc:ISSUER/SUBJECT`` of a sign-in elsewhere."""

    tenant: str
    role: Role
    actor: str
    proof: str

    @property
    def maker(self) -> str:
        """The maker that the records of their keys name."""
        return self.actor if self.proof.startswith(KEY) else f"{self.actor} (sign-in)"


def actor_of_key(name: str, prefix: str) -> str:
    """The actor that records name for the holder of a key."""
    return f"{name} (key {prefix})"


def actor_in_dagster(name: str) -> str:
    """The actor that records name for the operator, for runs launched on Dagster's pages."""
    return f"{name} (in Dagster)"


def person_of(actor: str) -> str:
    """The person behind an actor's name: keys of one name, and that name in Dagster, are the same person."""
    return without_proof(actor).strip().casefold()


def key_of(actor: str) -> str:
    """The prefix of the key that proved an actor's name; "" if none did."""
    found = _BY.search(actor)
    return (found[1] or "") if found else ""


def without_proof(actor: str) -> str:
    """An actor's name without how it was proved."""
    return _BY.sub("", actor)


def is_of_tenant(maker: str) -> bool:
    """Whether a root of makers (``Access.maker_of``) is a person of the tenant, and no operator of the platform. People
    who signed in made keys in their mail address's name alone before their names were marked."""
    return _BY.search(maker) is not None or "@" in maker
