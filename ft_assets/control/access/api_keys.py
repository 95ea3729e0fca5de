"""API keys: random, shown once, stored as a digest, revoked at once.

A key is ``ft-<prefix>-<secret>``. The prefix finds it and may be shown; the secret has 256 random bits, so a plain
SHA-256 of it cannot be searched for, and no salt or slow hash is needed. PostgreSQL in production, SQLite embedded
(``FT_ACCESS_DB``, an SQLAlchemy URL).
"""

import hashlib
import hmac
import itertools
import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from ft_assets.control.access import links
from ft_assets.control.access.audit import Asked, Entry, add_entry, read_entries, read_page
from ft_assets.control.access.identities import KEY, Identity, actor_of_key, is_of_tenant, key_of, without_proof
from ft_assets.control.access.rate_limits import Allowance, Limit, count_request, count_within, forget_old
from ft_assets.control.access.roles import PLATFORM, ROLES, Role
from ft_assets.control.access.sessions import add_session, find_session, revoke_session
from ft_assets.control.access.sign_ins import Choosing, Sent, remember, take
from ft_assets.control.access.tables import api_keys
from ft_assets.settings.keys import SHARED, check_tenant
from ft_resources.database import Database, Schema
from ft_resources.errors import NotIdentified, UserError

_SCHEMA = Schema(
    what="the access database",
    variable="FT_ACCESS_DB",
    migrations=Path(__file__).parent / "migrations",
    lock=7361043,
    comfort="Requests cannot be authenticated until it is available again. Running work continues.",
)
_FORM = re.compile(r"ft-([a-z0-9]{12})-([A-Za-z0-9_-]{43})")
_FORGET_EVERY = 1000
# Built once, as every request runs it.
_BY_PREFIX = sa.select(api_keys).where(api_keys.c.prefix == sa.bindparam("prefix"))
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """A key without its secret; times in seconds since the epoch."""

    prefix: str
    tenant: str
    role: Role
    name: str
    created_by: str
    created_at: float
    expires_at: float | None
    revoked_by: str
    revoked_at: float | None

    @property
    def state(self) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= time.time() else "valid"


class Access:
    """The access database at ``url``; opening it migrates the schema."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, _SCHEMA)
        self._counted = itertools.count(1)

    def create_key(
        self, tenant: str, role: Role, *, name: str, created_by: str, lifetime_s: float | None = None
    ) -> tuple[ApiKey, str]:
        """A new key of ``tenant``, and its text, which is not stored. Raises UserError for an invalid argument."""
        check_tenant(tenant)
        if role not in ROLES:
            raise UserError(f"there is no role {role!r}", where="role", remedy=f"Use one of {', '.join(ROLES)}.")
        if tenant == SHARED and role != PLATFORM:
            raise UserError(
                f"{SHARED!r} is not a tenant", where="tenant", remedy="Name the tenant that will use the key."
            )
        if tenant != SHARED and role == PLATFORM:
            raise UserError(
                f"the role {PLATFORM} does not belong to a tenant",
                where="role",
                remedy=f"Name {SHARED!r} in place of a tenant.",
            )
        if lifetime_s is not None and lifetime_s <= 0:
            raise UserError("the key would expire before it is used", where="expires", remedy="Give a time above 0.")
        if not name or len(name) > 100 or not name.isprintable():
            raise UserError(
                f"{name!r} cannot be the name of a key", where="name", remedy="Use 1 to 100 printable characters."
            )
        prefix = "".join(secrets.choice(_LETTERS) for _ in range(12))
        secret, now = secrets.token_urlsafe(32), time.time()
        key = ApiKey(
            prefix=prefix,
            tenant=tenant,
            role=role,
            name=name,
            created_by=created_by[:200],
            created_at=now,
            expires_at=None if lifetime_s is None else now + lifetime_s,
            revoked_by="",
            revoked_at=None,
        )
        with self._database.begin() as connection:
            connection.execute(sa.insert(api_keys).values(**vars(key), secret_sha256=_digest(secret)))
        return key, f"ft-{prefix}-{secret}"

    def identify(self, text: str) -> Identity:
        """Who holds the key ``text``. Raises NotIdentified for an unknown, expired or revoked one; only callers who
        know its secret are told which it is."""
        with self._database.connect() as connection:
            return _identified(connection, text)

    def admit(self, text: str, limits: Callable[[Identity], Sequence[Limit]]) -> tuple[Identity, list[Allowance]]:
        """Who holds the key ``text``, and what their limits leave after this request: ``identify`` and ``count`` in one
        transaction. Raises NotIdentified."""
        self._forget_now_and_then()
        with self._database.begin() as connection:
            found = _identified(connection, text)
            return found, count_within(connection, self._database, limits(found))

    def maker_of(self, proof: str) -> str:
        """The person at the root of the makers of the key that proved an identity: the person of the tenant who made
        it, or who made its maker, and so on, as ``Identity.maker`` says it; else the operator who made it, by name
        alone. "" if the identity was not proved by a key."""
        if not proof.startswith(KEY):
            return ""
        with self._database.connect() as connection:
            return _root(connection, proof.removeprefix(KEY))

    def list_keys(self, tenant: str = "") -> list[ApiKey]:
        """The keys of one tenant, or all, newest first."""
        query = sa.select(api_keys).order_by(api_keys.c.created_at.desc())
        if tenant:
            query = query.where(api_keys.c.tenant == tenant)
        with self._database.connect() as connection:
            return [_key(row) for row in connection.execute(query).mappings()]

    def revoke_key(self, prefix: str, *, revoked_by: str) -> ApiKey:
        """Refuse the key from now on; the first revocation stands. Raises UserError for an unknown one."""
        revoke = (
            sa.update(api_keys)
            .where(api_keys.c.prefix == prefix, api_keys.c.revoked_at.is_(None))
            .values(revoked_by=revoked_by[:200], revoked_at=time.time())
        )
        with self._database.begin() as connection:
            connection.execute(revoke)
            row = connection.execute(sa.select(api_keys).where(api_keys.c.prefix == prefix)).mappings().first()
        if row is None:
            raise UserError(f"there is no API key {prefix!r}", where="API key", remedy="List all keys: ft key list")
        return _key(row)

    def open_session(self, identity: Identity) -> str:
        """The token of a new 12-hour session, which ends earlier if the key that proved ``identity`` does."""
        return add_session(self._database, identity)

    def session(self, token: str) -> Identity:
        """Who holds a session's token. Raises NotIdentified for one that is unknown or over."""
        return find_session(self._database, token)

    def end_session(self, token: str) -> None:
        """Refuse the token from now on."""
        revoke_session(self._database, token)

    def remember(self, token: str, browser: str, step: Sent | Choosing) -> None:
        """Keep a step of a sign-in; see ``sign_ins``."""
        remember(self._database, token, browser, step)

    def take(self, token: str, browser: str, kind: type[Sent] | type[Choosing]) -> Sent | Choosing:
        """The step that was kept, which is then deleted. Raises NotIdentified."""
        return take(self._database, token, browser, kind)

    def sign(self, path: str) -> links.Signature:
        """The signature of a link to ``path``; see ``links``."""
        return links.sign(self._database, path)

    def check_link(self, path: str, given: links.Signature) -> None:
        """Raise NotPermitted unless the signature of a link to ``path`` is valid."""
        links.check(self._database, path, given)

    def count(self, limits: Sequence[Limit]) -> list[Allowance]:
        """What the limits leave after this request; see ``rate_limits``."""
        self._forget_now_and_then()
        return count_request(self._database, limits) if limits else []

    def note(self, request: Asked) -> None:
        """Add a request to the tenant's log."""
        add_entry(self._database, request)

    def audit(self, tenant: str) -> list[Entry]:
        """The tenant's requests, the oldest first; for "", those without a valid key. Raises CorruptArtifact for a
        changed log."""
        return read_entries(self._database, tenant)

    def audit_page(self, tenant: str, *, before: int | None, limit: int) -> list[Entry]:
        """At most ``limit`` of them, the newest first; with ``before``, only those with smaller numbers. Raises
        CorruptArtifact if one of these was changed."""
        return read_page(self._database, tenant, before=before, limit=limit)

    def check(self) -> None:
        """Raise DatabaseUnavailable if the database does not answer."""
        with self._database.connect() as connection:
            connection.execute(sa.select(sa.literal(1)))

    def close(self) -> None:
        self._database.close()

    def _forget_now_and_then(self) -> None:
        if next(self._counted) % _FORGET_EVERY == 0:
            forget_old(self._database)


def access_url() -> str:
    """``FT_ACCESS_DB``, or a SQLite file next to Dagster's own state."""
    default = Path(os.environ.get("FT_STATE", ".ft")).resolve() / "access.db"
    return os.environ.get("FT_ACCESS_DB") or f"sqlite:///{default}"


def _identified(connection: sa.Connection, text: str) -> Identity:
    """Who holds the key ``text``. Raises NotIdentified."""
    form = _FORM.fullmatch(text)
    row = connection.execute(_BY_PREFIX, {"prefix": form[1] if form else ""}).mappings().first()
    if form is None or row is None or not hmac.compare_digest(row["secret_sha256"], _digest(form[2])):
        raise NotIdentified(
            "the API key is unknown",
            where="API key",
            remedy="Send one as `Authorization: Bearer ft-…`; ft key create TENANT makes one.",
        )
    key = _key(row)
    if key.state != "valid":
        raise NotIdentified(
            f"the API key {key.prefix} is {key.state}",
            where="API key",
            remedy="Use another key; ft key create TENANT makes one.",
        )
    actor = actor_of_key(key.name, key.prefix)
    return Identity(tenant=key.tenant, role=key.role, actor=actor, proof=f"{KEY}{key.prefix}")


def _root(connection: sa.Connection, prefix: str) -> str:
    def found(prefix: str) -> "sa.RowMapping | None":
        return connection.execute(_BY_PREFIX, {"prefix": prefix}).mappings().first()

    root, key = "", found(prefix)
    while key is not None:
        maker, above = key["created_by"], found(key_of(key["created_by"]))
        if not is_of_tenant(maker) or (above is not None and above["tenant"] != key["tenant"]):
            # An operator, perhaps with a key of the platform: whoever holds what they made stands for themselves.
            return root or without_proof(maker)
        root, key = maker, above
    return root


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _key(row: "sa.RowMapping") -> ApiKey:
    return ApiKey(**{name: row[name] for name in ApiKey.__dataclass_fields__})
