"""SQL databases of the platform: PostgreSQL in production, SQLite embedded. Opening one migrates its schema."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ft_resources.errors import DatabaseUnavailable, UserError

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
            self._engine = sa.create_engine(_driven(url), pool_pre_ping=True)
        except (sa.exc.ArgumentError, ImportError) as error:
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
            if name := self._engine.url.database:
                Path(name).parent.mkdir(parents=True, exist_ok=True)
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

        config = Config()
        # Percent signs in the path would be read as interpolation.
        config.set_main_option("script_location", str(self._schema.migrations).replace("%", "%%"))
        with self._engine.begin() as connection:
            if self._engine.dialect.name == "postgresql":
                # Two processes starting at once would both create the tables.
                connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({self._schema.lock})"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            raise DatabaseUnavailable(
                f"{self._schema.what} does not answer ({type(error).__name__})",
                where=self._schema.variable,
                remedy=self._schema.comfort,
            ) from error


def _driven(url: str) -> sa.URL:
    """``url`` with the PostgreSQL driver that Dagster uses, if it names none."""
    parsed = sa.make_url(url)
    return parsed.set(drivername="postgresql+psycopg2") if parsed.drivername == "postgresql" else parsed


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
