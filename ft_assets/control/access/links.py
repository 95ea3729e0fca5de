"""Signatures of links: the holder of a link may read what it names, until it expires.

The HMAC-SHA-256 is over the time at which the link expires and the path, whose first part is the tenant. Keys are
random and stored in the access database, so that all servers share them. A key signs for a week and is removed once all
of its links have expired.
"""

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass

import sqlalchemy as sa

from ft_assets.control.access.tables import link_keys
from ft_resources.database import Database
from ft_resources.errors import NotPermitted

LIFETIME_S = 900
_SIGNS_S = 7 * 86_400.0
_FORM = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What a link carries besides its path. ``expires`` is in seconds since the epoch, ``key`` names the key."""

    expires: int
    key: str
    signature: str


def sign(database: Database, path: str) -> Signature:
    """A signature of ``path`` for 15 minutes."""
    expires, (key, secret) = int(time.time()) + LIFETIME_S, _newest(database)
    return Signature(expires=expires, key=key, signature=_mac(secret, path, expires))


def check(database: Database, path: str, given: Signature) -> None:
    """Raise NotPermitted unless ``given`` is a signature of ``path`` that has not expired."""
    query = sa.select(link_keys.c.secret).where(link_keys.c.id == given.key)
    with database.connect() as connection:
        secret = connection.execute(query).scalar()
    # A link that was changed and one that is over are not told apart.
    expected = _mac(secret or secrets.token_hex(32), path, given.expires)
    known = _FORM.fullmatch(given.signature) is not None and hmac.compare_digest(expected, given.signature)
    if not known or given.expires <= time.time():
        raise NotPermitted(
            "this link has expired or was altered",
            where="link",
            remedy="Open the page that contains the link again to get a new one.",
        )


def _newest(database: Database) -> tuple[str, str]:
    """Name and secret of the current signing key; a new one if the last has signed for a week."""
    now = time.time()
    query = sa.select(link_keys).where(link_keys.c.created_at > now - _SIGNS_S).order_by(link_keys.c.created_at.desc())
    with database.connect() as connection:
        found = connection.execute(query.limit(1)).mappings().first()
    if found is not None:
        return found["id"], found["secret"]
    made = {"id": secrets.token_hex(8), "secret": secrets.token_hex(32), "created_at": now}
    with database.begin() as connection:
        connection.execute(sa.delete(link_keys).where(link_keys.c.created_at <= now - _SIGNS_S - LIFETIME_S))
        connection.execute(sa.insert(link_keys).values(**made))
    return str(made["id"]), str(made["secret"])


def _mac(secret: str, path: str, expires: int) -> str:
    return hmac.new(bytes.fromhex(secret), f"{expires}\n{path}".encode(), hashlib.sha256).hexdigest()
