"""The audit log: who asked for what over HTTP, from where, and whether it was allowed. One chain a tenant.

Each entry's digest covers it and the digest before it, so an entry that was changed, removed or inserted between is
found. Only a cut at the end stays unnoticed; against that, copy the log elsewhere (`ft audit --json`).
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import sqlalchemy as sa

from ft_assets.control.access.tables import audit
from ft_resources.canonical import digest
from ft_resources.database import Database
from ft_resources.errors import CorruptArtifact


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request and its answer. ``tenant`` and ``actor`` are those of its key, "" without a valid one; ``request`` is
    the id that the client was told."""

    tenant: str
    actor: str
    peer: str
    method: str
    path: str
    status: int
    request: str


@dataclass(frozen=True, kw_only=True)
class Entry(Asked):
    """A request in the log; ``at`` in seconds since the epoch."""

    seq: int
    at: float
    digest: str

    def expected(self, before: str) -> str:
        """Its digest after an entry with the digest ``before``."""
        return digest({**asdict(self), "digest": before})


def add_entry(database: Database, asked: Asked) -> Entry:
    """Write the tenant's next entry. Raises UserError if the database does not answer."""
    last = sa.select(audit.c.seq, audit.c.digest).where(audit.c.tenant == asked.tenant).order_by(audit.c.seq.desc())
    short = replace(
        asked, actor=asked.actor[:200], peer=asked.peer[:100], path=asked.path[:500], method=asked.method[:10]
    )
    with database.begin() as connection:
        # Serializes servers that write at the same moment.
        database.lock(connection, f"audit {asked.tenant}")
        before = connection.execute(last.limit(1)).first()
        seq, head = (before.seq + 1, before.digest) if before else (1, "")
        entry = Entry(**asdict(short), seq=seq, at=time.time(), digest="")
        entry = replace(entry, digest=entry.expected(head))
        connection.execute(sa.insert(audit).values(**asdict(entry)))
    return entry


def read_entries(database: Database, tenant: str) -> list[Entry]:
    """All entries of a tenant, in order. Raises CorruptArtifact, with the first wrong one, for a changed log."""
    query = sa.select(audit).where(audit.c.tenant == tenant).order_by(audit.c.seq)
    with database.connect() as connection:
        entries = [Entry(**row) for row in connection.execute(query).mappings()]
    _verify(tenant, entries, "", 1)
    return entries


def read_page(database: Database, tenant: str, *, before: int | None, limit: int) -> list[Entry]:
    """At most ``limit`` entries of a tenant, the newest first; with ``before``, only those with smaller numbers. Raises
    CorruptArtifact if one of these was changed."""
    query = sa.select(audit).where(audit.c.tenant == tenant).order_by(audit.c.seq.desc())
    if before is not None:
        query = query.where(audit.c.seq < before)
    # One more, whose digest the oldest follows.
    with database.connect() as connection:
        entries = [Entry(**row) for row in connection.execute(query.limit(limit + 1)).mappings()][::-1]
    follows = entries.pop(0) if len(entries) > limit else None
    _verify(tenant, entries, follows.digest if follows else "", follows.seq + 1 if follows else 1)
    return entries[::-1]


def _verify(tenant: str, entries: Sequence[Entry], head: str, first: int) -> None:
    """Raise CorruptArtifact unless ``entries``, in order from the number ``first``, follow the digest ``head``."""
    for place, entry in enumerate(entries, first):
        if entry.seq != place or entry.digest != entry.expected(head):
            raise CorruptArtifact(
                "an entry of the audit log was changed, removed or inserted",
                where=f"audit of {tenant or 'nobody'}, entry {place}",
                remedy="Compare with a backup of the access database, and check who has write access to it.",
            )
        head = entry.digest
