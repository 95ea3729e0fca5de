"""A query: there are new rows if the highest watermark or the number of rows has changed."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from ft_assets.settings.connections import SqlConnection
from ft_assets.workers.datasets.sources.place import Fetched, SourceUnavailable, secret
from ft_resources.canonical import digest
from ft_resources.database_refusals import meaning
from ft_resources.errors import BadData, UserError, first_line

_AT_ONCE = 1000
_MOST_BYTES = 16 << 30
_LONGEST_MARK = 100
_NAME = "rows.jsonl"
# PostgreSQL's code for a missing right.
_NO_RIGHT = "42501"


class Query:
    """The rows of one SELECT, in a transaction that only reads and is always rolled back."""

    def __init__(self, connection: SqlConnection, query: str, watermark: str | None) -> None:
        self._connection, self._watermark = connection, watermark
        # SQLAlchemy takes `:word` for a bound value; a tenant's query has none.
        # The line end closes a comment in which a query may end.
        self._asked = f"({query.replace(':', chr(92) + ':')}\n) AS asked"

    def look(self) -> str:
        """The highest watermark and the number of rows; "" without a watermark, when only an asset announces new
        rows."""
        if self._watermark is None:
            return ""
        with self._opened() as connection:
            return self._seen(*self._highest(connection))

    def fetch(self, folder: Path, *, most_rows: int | None) -> Fetched:
        """All rows up to the highest watermark, by watermark, as JSON lines; dates in ISO 8601, decimals as numbers.

        Rows with a lower watermark that the database does not show yet are noticed later, by the number of rows.
        """
        from sqlalchemy import text

        path, seen = folder / _NAME, ""
        limit = f" LIMIT {most_rows + 1:d}" if most_rows is not None else ""
        with self._opened() as connection:
            asked, bound = f"SELECT * FROM {self._asked}", {}
            if self._watermark is not None:
                highest, count = self._highest(connection)
                seen, bound = self._seen(highest, count), {"highest": highest}
                asked += f" WHERE {self._watermark} <= :highest ORDER BY {self._watermark}"
            rows = connection.execute(text(asked + limit).execution_options(stream_results=True), bound)
            with path.open("w", encoding="utf-8") as file:
                for number, row in enumerate(rows.mappings().yield_per(_AT_ONCE), start=1):
                    file.write(_line(row, number))
                    # A query can close its parenthesis and comment the limit away; SQLite takes `/*` without an end.
                    if most_rows is not None and number > most_rows:
                        break
                    if number % _AT_ONCE == 0 and file.tell() > _MOST_BYTES:
                        raise BadData(
                            f"the query gives more than {_MOST_BYTES >> 30} GiB",
                            where="source.sql.query",
                            remedy="Select fewer rows or columns.",
                        )
        return Fetched(seen=seen, files=(path,))

    def _highest(self, connection: Any) -> tuple[Any, int]:
        from sqlalchemy import text

        mark = self._watermark
        row = connection.execute(text(f"SELECT max({mark}), count(*), count({mark}) FROM {self._asked}")).one()
        if row[1] != row[2]:
            raise BadData(
                f"{row[1] - row[2]:,} of {row[1]:,} rows have no {mark}, and would never be read",
                where="source.sql.watermark",
                remedy=f"Leave them out (WHERE {mark} IS NOT NULL), or give them one (COALESCE).",
            )
        return row[0], row[1]

    def _seen(self, highest: object, count: int) -> str:
        # It goes into records, pages and the configuration of runs.
        shown = str(highest) if len(str(highest)) <= _LONGEST_MARK else digest(str(highest))
        return f"{self._watermark} up to {shown}, {count:,} rows"

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        from sqlalchemy import create_engine, event, exc, make_url
        from sqlalchemy.pool import NullPool

        given, seconds = secret(self._connection.url), self._connection.seconds
        try:
            url = make_url(given)
            # The driver that Dagster brings.
            url = url.set(drivername="postgresql+psycopg2") if url.drivername == "postgresql" else url
            engine = create_engine(url, poolclass=NullPool)
        except (exc.ArgumentError, exc.NoSuchModuleError, ImportError, ValueError) as error:
            # Never the URL itself: it has the password.
            raise UserError(
                f"{self._connection.url} is not a URL that SQLAlchemy can use here ({type(error).__name__})",
                where="a connection in tenants.yaml",
                remedy="Write it as DIALECT+DRIVER://USER:PASSWORD@HOST/DATABASE, and install the driver.",
            ) from None
        limits = _LIMITS.get(engine.dialect.name)
        if limits:

            @event.listens_for(engine, "begin")
            def limit(connection: Any) -> None:
                for statement in limits:
                    connection.exec_driver_sql(statement.format(milliseconds=int(seconds * 1000)))

        try:
            with engine.connect() as connection:
                if engine.dialect.name == "sqlite":
                    # SQLite has no time limit: it calls this every 100,000 steps, and stops at True.
                    until = time.monotonic() + seconds
                    raw: Any = connection.connection.driver_connection
                    raw.set_progress_handler(lambda: time.monotonic() > until, 100_000)
                yield connection
        except exc.SQLAlchemyError as error:
            raise _failed(error) from None
        except (ValueError, OverflowError) as error:
            # Raised by a driver, for example for a date in a year that Python's dates do not have.
            raise BadData(
                f"the query gives a value that cannot be read ({first_line(error)})",
                where="source.sql.query",
                remedy="Cast the column to text.",
            ) from None
        finally:
            engine.dispose()


# Statements that make a transaction read-only and limit its time; other databases rely on the role's rights.
_LIMITS: Mapping[str, tuple[str, ...]] = {
    "postgresql": (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "SET LOCAL statement_timeout = {milliseconds}",
    ),
    "sqlite": ("PRAGMA query_only = ON",),
}


def _line(row: Mapping[str, Any], number: int) -> str:
    try:
        return json.dumps(dict(row), ensure_ascii=False, allow_nan=False, default=_plain) + "\n"
    except (TypeError, ValueError) as error:
        raise BadData(
            f"a column has no JSON form ({first_line(error)})",
            where=f"source.sql.query, row {number}",
            remedy="Select text, numbers, dates, JSON or arrays of these; cast the others.",
        ) from None


def _plain(value: object) -> object:
    if isinstance(value, (date, datetime, time_of_day)):
        return value.isoformat()
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} value")


def _failed(error: Any) -> UserError:
    """UserError for a query that the tenant must correct, SourceUnavailable for a database that does not answer. Both
    quote the driver, never the statement's values or the URL."""
    from sqlalchemy import exc

    said = first_line(getattr(error, "orig", None) or error)
    # SQLite also calls a missing table or a syntax error operational.
    if isinstance(error, (exc.ProgrammingError, exc.DataError, exc.NotSupportedError, exc.ResourceClosedError)) or (
        isinstance(error, exc.OperationalError) and "sqlite3" in str(type(error.orig))
    ):
        return UserError(
            f"the database refused the query ({said})",
            where="source.sql.query",
            remedy="Grant the connection's user SELECT on the tables of the query."
            if getattr(getattr(error, "orig", None), "pgcode", None) == _NO_RIGHT
            else "Correct the query.",
        )
    known = meaning(error)
    return SourceUnavailable(
        f"the database {known.what} ({said})",
        where="source.sql",
        remedy=f"{known.remedy or 'Check that its address can be reached.'} The source is read again later.",
    )
