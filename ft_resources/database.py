"""SQL databases of the platform: PostgreSQL in production, SQLite embedded. Opening one migrates its schema."""

import os
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ft_resources.database_refusals import meaning
from ft_resources.errors import DatabaseRefusal, DatabaseUnavailable, UserError, first_line

# A PostgreSQL that is frozen takes connections and questions, and answers none: libpq waits for ever.
_CONNECT_S, _LONGEST_S = 10, 30.0
# Alembic keeps a migration's context in module globals.
_MIGRATING = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The tables of one purpose.

    Args:
        what: the database in errors, such as "the metering database".
        variable: the environment variable that names it.
        migrations: folder of Alembic's versions.
        lock: PostgreSQL's advisory lock of the migration; of each schema its own.
        comfort: what a user should know while it does not answer.
    """

    what: str
    variable: str
    migrations: Path
    lock: int
    comfort: str


class Database:
    """The tables of ``schema`` at ``url``, an SQLAlchemy URL. All methods raise UserError while it does not answer."""

    def __init__(self, url: str, schema: Schema) -> None:
        self._schema = schema
        try:
            self._engine = sa.create_engine(_driven(url))
        except (sa.exc.ArgumentError, ImportError, ValueError) as error:
            raise UserError(
                f"{schema.what} cannot be used ({error})",
                where=schema.variable,
                remedy="Give an SQLAlchemy URL: postgresql://USER@HOST/NAME or sqlite:////absolute/path.db",
            ) from error
        # SQLite has one transaction at a time, and gives up waiting for another after five seconds. Threads of one
        # process wait for each other here without that limit.
        self._one_at_a_time: AbstractContextManager[Any] = nullcontext()
        if self._engine.dialect.name == "sqlite":
            self._one_at_a_time = threading.RLock()
            _prepare_sqlite(self._engine)
        elif self._engine.dialect.name == "postgresql":
            _limit_time(self._engine)
        with self._explained(), _MIGRATING:
            self._migrate()

    @contextmanager
    def connect(self) -> Iterator[sa.Connection]:
        """A connection to read from."""
        with self._explained(), self._one_at_a_time, self._engine.connect() as connection:
            yield connection

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """A transaction."""
        with self._explained(), self._one_at_a_time, self._engine.begin() as connection:
            yield connection

    def insert_missing(self, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        """Insert ``rows``, except those whose key exists already."""
        if not rows:
            return
        with self.begin() as connection:
            connection.execute(self.insert(table).on_conflict_do_nothing(), rows)

    def insert(self, table: sa.Table) -> Any:
        """An INSERT that supports ON CONFLICT."""
        from sqlalchemy.dialects import postgresql, sqlite

        return postgresql.insert(table) if self._engine.dialect.name == "postgresql" else sqlite.insert(table)

    def lock(self, connection: sa.Connection, name: str) -> None:
        """Wait until no other transaction holds ``name``; until this one ends. SQLite has one transaction at a time."""
        if self._engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(self._schema.lock, sa.func.hashtext(name))))

    def close(self) -> None:
        self._engine.dispose()

    def _migrate(self) -> None:
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        config = Config()
        # Percent signs in the path would be read as interpolation.
        config.set_main_option("script_location", str(self._schema.migrations).replace("%", "%%"))
        if self._engine.dialect.name == "sqlite" and (name := self._engine.url.database):
            Path(name).parent.mkdir(parents=True, exist_ok=True)
        with self._engine.begin() as connection:
            if self._engine.dialect.name == "postgresql":
                # A large table takes its time.
                connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
                connection.info.pop(_LIMIT).end()
                # Two processes starting at once would both create the tables.
                connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({self._schema.lock})"))
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, "head")
            except CommandError as error:
                raise DatabaseRefusal(
                    f"{self._schema.what} was used by a later version ({first_line(error)})",
                    where=self._schema.variable,
                    remedy="Use that version or a later one.",
                ) from error

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sa.exc.SQLAlchemyError, OSError) as error:
            found, name = meaning(error), type(getattr(error, "orig", None) or error).__name__
            raise (DatabaseUnavailable if found.passes else DatabaseRefusal)(
                f"{self._schema.what} {found.what} ({name})",
                where=self._schema.variable,
                remedy=f"{found.remedy} {self._schema.comfort}".strip(),
            ) from error


def _driven(url: str) -> sa.URL:
    """``url`` with the PostgreSQL driver that Dagster uses, if it names none, and a limit of the time to connect."""
    parsed = sa.make_url(url)
    if parsed.drivername not in ("postgresql", "postgresql+psycopg2"):
        return parsed
    return parsed.set(drivername="postgresql+psycopg2", query={"connect_timeout": str(_CONNECT_S), **parsed.query})


class _Limit:
    """Breaks the connection off after a time: no time-out of the server's or of TCP ends a wait for one that is
    frozen."""

    def __init__(self, connection: Any) -> None:
        # Of its own, as the number may soon be that of another socket.
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._timer = threading.Timer(_LONGEST_S, self._break)
        self._timer.daemon = True
        self._timer.start()

    def _break(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        self._timer.cancel()
        self._socket.close()


_LIMIT = "limit"


def _limit_time(engine: sa.Engine) -> None:
    """Give each use of a connection ``_LONGEST_S``, and see beforehand that it is alive."""

    @sa.event.listens_for(engine, "checkout")
    def taken(connection: Any, record: Any, proxy: Any) -> None:
        record.info[_LIMIT] = limit = _Limit(connection)
        try:
            with connection.cursor() as cursor:
                # Of the transaction that this statement begins, and that the caller goes on with.
                cursor.execute(f"SET LOCAL statement_timeout = {int(_LONGEST_S * 1000)}")
        except engine.dialect.loaded_dbapi.Error as error:
            limit.end()
            raise sa.exc.InvalidatePoolError(str(error)) from error

    @sa.event.listens_for(engine, "checkin")
    def given_back(connection: Any, record: Any) -> None:
        if limit := record.info.pop(_LIMIT, None):
            limit.end()


def _prepare_sqlite(engine: sa.Engine) -> None:
    """Begin transactions before DDL. SQLite's driver does not, so a crash in a migration would leave half a schema.

    https://docs.sqlalchemy.org/en/20/dialects/sqlite.html#serializable-isolation-savepoints-transactional-ddl;
    immediate, so that of two processes that open a new file at once, one waits for the other.

    Transactions are kept in a write-ahead log, https://sqlite.org/wal.html: one costs one wait for the disk, and not
    several, and is as safe once it has ended.
    """

    @sa.event.listens_for(engine, "connect")
    def connected(connection: Any, record: Any) -> None:
        connection.isolation_level = None
        # While another process writes to the file its mode cannot change; the next opening changes it.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @sa.event.listens_for(engine, "begin")
    def begun(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
