"""Sign-ins under way: state between sending a person to the provider and their return.

A row is found by the digest of its token and deleted by the same statement, so it is used once. It belongs to one
browser, by a secret cookie.
"""

import hashlib
import hmac
import json
import time
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from ft_assets.control.access.tables import sign_ins
from ft_resources.database import Database
from ft_resources.errors import NotIdentified

LIFETIME_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A person is away to sign in; ``page`` is where they go afterwards."""

    nonce: str
    verifier: str
    page: str


@dataclass(frozen=True, kw_only=True)
class Choosing:
    """A person is known, and chooses one of several tenants. ``roles`` are theirs by tenant."""

    actor: str
    proof: str
    roles: dict[str, str]
    page: str


def remember(database: Database, token: str, browser: str, step: Sent | Choosing) -> None:
    """Keep ``step`` for ten minutes, under ``token`` and for the browser with the cookie ``browser``."""
    now = time.time()
    row = {
        "token_sha256": _digest(token),
        "browser_sha256": _digest(browser),
        "kind": type(step).__name__,
        "step": json.dumps(asdict(step)),
        "expires_at": now + LIFETIME_S,
    }
    with database.begin() as connection:
        connection.execute(sa.delete(sign_ins).where(sign_ins.c.expires_at <= now))
        connection.execute(sa.insert(sign_ins).values(row))


def take(database: Database, token: str, browser: str, kind: type[Sent] | type[Choosing]) -> Sent | Choosing:
    """The step that was kept under ``token``, which is deleted. Raises NotIdentified for anything else."""
    query = sa.delete(sign_ins).where(sign_ins.c.token_sha256 == _digest(token), sign_ins.c.kind == kind.__name__)
    with database.begin() as connection:
        row = connection.execute(query.returning(*sign_ins.c)).mappings().first()
    known = row is not None and row["expires_at"] > time.time()
    if row is None or not known or not hmac.compare_digest(row["browser_sha256"], _digest(browser)):
        raise NotIdentified(
            "this sign-in has expired or was started in another browser", where="sign-in", remedy="Begin again."
        )
    return kind(**json.loads(row["step"]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
