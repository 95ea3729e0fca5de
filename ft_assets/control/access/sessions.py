"""Sessions of people in a browser: a random token in a cookie, of which only the digest is kept.

The token has 256 random bits, so a plain SHA-256 of it cannot be searched for. A session ends by itself, when its
person ends it, and with the API key that proved it.
"""

import hashlib
import re
import secrets
import time

import sqlalchemy as sa

from ft_assets.control.access.identities import KEY, Identity
from ft_assets.control.access.tables import api_keys, sessions
from ft_resources.database import Database
from ft_resources.errors import NotIdentified

LIFETIME_S = 12 * 3600.0
_FORM = re.compile(r"[A-Za-z0-9_-]{43}")


def add_session(database: Database, identity: Identity) -> str:
    """The token of a new session, which is not stored. Expired sessions are removed."""
    token, now = secrets.token_urlsafe(32), time.time()
    row = {**vars(identity), "created_at": now, "expires_at": now + LIFETIME_S, "token_sha256": _digest(token)}
    with database.begin() as connection:
        connection.execute(sa.delete(sessions).where(sessions.c.expires_at <= now))
        connection.execute(sa.insert(sessions).values(**row))
    return token


def find_session(database: Database, token: str) -> Identity:
    """Who holds ``token``. Raises NotIdentified for one that is unknown, or that has ended itself or with its key."""
    now = time.time()
    key = sa.and_(sessions.c.proof == KEY + api_keys.c.prefix, api_keys.c.revoked_at.is_(None))
    key = sa.and_(key, sa.or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > now))
    query = (
        sa.select(sessions)
        .join(api_keys, key, isouter=True)
        .where(sessions.c.token_sha256 == _digest(token), sessions.c.revoked_at.is_(None), sessions.c.expires_at > now)
        .where(sa.or_(api_keys.c.prefix.is_not(None), sa.not_(sessions.c.proof.startswith(KEY))))
    )
    row = None
    if _FORM.fullmatch(token):
        with database.connect() as connection:
            row = connection.execute(query).mappings().first()
    if row is None:
        raise NotIdentified("the session has ended", where="session", remedy="Sign in again.")
    return Identity(**{name: row[name] for name in Identity.__dataclass_fields__})


def revoke_session(database: Database, token: str) -> None:
    """Refuse the token from now on. An unknown token is ignored."""
    with database.begin() as connection:
        known = sa.and_(sessions.c.token_sha256 == _digest(token), sessions.c.revoked_at.is_(None))
        connection.execute(sa.update(sessions).where(known).values(revoked_at=time.time()))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
