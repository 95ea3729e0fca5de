"""SQLite as the platform uses it: safe once a transaction has ended, and quick to end one; PostgreSQL when it refuses,
or answers nothing at all; and what each error of both is told as."""

import os
import signal
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ft_assets.control.access.api_keys import Access
from ft_resources.database import _prepare_sqlite
from ft_resources.database_refusals import meaning
from ft_resources.errors import DatabaseRefusal, DatabaseUnavailable, UserError
from tests.postgres import _server, postgres_database


def settings_of(access: Access) -> tuple[object, object]:
    with access._database.connect() as connection:
        mode, synchronous = (
            connection.execute(sa.text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "synchronous")
        )
    return mode, synchronous


def test_a_transaction_waits_once_for_the_disk_and_is_there_after_a_crash(tmp_path: Path) -> None:
    access = Access(f"sqlite:///{tmp_path}/access.db")
    # 2: a transaction that has ended is on the disk.
    assert settings_of(access) == ("wal", 2)
    access.close()


def test_a_file_from_before_is_changed_when_it_is_opened_and_nobody_writes(tmp_path: Path) -> None:
    file = tmp_path / "access.db"
    access = Access(f"sqlite:///{file}")
    _, key = access.create_key("acme", "member", name="ci", created_by="root")
    access.close()
    other = sqlite3.connect(file, isolation_level=None)
    assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    other.execute("BEGIN IMMEDIATE")
    engine = sa.create_engine(f"sqlite:///{file}?timeout=0.1")
    _prepare_sqlite(engine)
    assert engine.raw_connection().cursor().execute("PRAGMA journal_mode").fetchone() == ("delete",)
    engine.dispose()
    other.close()
    access = Access(f"sqlite:///{file}")
    assert (access.identify(key).tenant, settings_of(access)) == ("acme", ("wal", 2))
    access.close()


@pytest.fixture
def postgres() -> Iterator[sa.URL]:
    with postgres_database() as url:
        yield sa.make_url(url)


@pytest.fixture
def weak(postgres: sa.URL) -> Iterator[sa.URL]:
    """The same database for a user who owns nothing."""
    name = f"weak_{postgres.database}"
    _server().psql(f"CREATE ROLE {name} LOGIN; CREATE ROLE {name}_shut")
    yield postgres.set(username=name)
    _server().psql(f"DROP OWNED BY {name}; DROP ROLE {name}; DROP ROLE {name}_shut")


def with_option(url: sa.URL, option: str) -> sa.URL:
    return url.update_query_dict({"options": f"-c {option}"})


REFUSALS: list[tuple[str, Any, str, str]] = [
    ("an unknown role", lambda url: url.set(username="nobody"), "does not let this user in", "the password"),
    ("a role without LOGIN", lambda url: url.set(username=f"{url.username}_shut"), "let this user in", "the password"),
    ("an unknown database", lambda url: url.set(database="nothing"), "is not on that server", "CREATE DATABASE"),
    ("no right on the schema", lambda url: url, "denies this user a right", "CREATE on its schema"),
    ("an unknown schema", lambda url: with_option(url, "search_path=nowhere"), "has no schema", "search_path"),
    ("a copy", lambda url: with_option(url, "default_transaction_read_only=on"), "takes no writes", "primary server"),
]


@pytest.mark.parametrize(("case", "changed", "what", "remedy"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_each_refusal_of_postgresql_is_told_as_what_it_is(
    weak: sa.URL, case: str, changed: Any, what: str, remedy: str
) -> None:
    if case == "a copy":
        _server().psql(f"GRANT CREATE ON DATABASE {weak.database} TO {weak.username}")
    with pytest.raises(DatabaseRefusal, match=what) as problem:
        Access(changed(weak).render_as_string())
    assert remedy in problem.value.remedy
    assert "Requests cannot be authenticated until it is available" in problem.value.remedy


class Answered(Exception):
    """An error of a driver, with the code that the database gave."""

    def __init__(self, code: str) -> None:
        self.pgcode = code


@pytest.mark.parametrize(
    ("code", "what", "passes"),
    [
        ("08006", "does not answer", True),
        ("23505", "refused a statement with the code 23505", False),
        ("25P03", "did not finish in time", True),
        ("25P04", "did not finish in time", True),
        ("40001", "others that wrote at the same time", True),
        ("40P01", "others that wrote at the same time", True),
        ("42P01", "other tables", False),
        ("42501", "denies this user a right", False),
        ("53100", "no room left", False),
        ("53200", "no memory left", True),
        ("53300", "no connection left", True),
        ("53400", "another limit", True),
        ("55P03", "did not finish in time", True),
        ("57014", "did not finish in time", True),
        ("57P01", "is starting or stopping", True),
        ("57P04", "is not on that server", False),
        ("57P05", "did not finish in time", True),
        ("58030", "fault of its disk", True),
        ("XX000", "refused a statement with the code XX000", False),
        ("XX001", "is damaged", False),
        ("XX002", "damaged index", False),
        ("SQLITE_BUSY_SNAPSHOT", "did not finish in time", True),
        ("SQLITE_CANTOPEN_ISDIR", "cannot be opened", False),
        ("SQLITE_CORRUPT_INDEX", "damaged", False),
        ("SQLITE_ERROR", "other tables", False),
        ("SQLITE_IOERR_WRITE", "fault of its disk", True),
        ("SQLITE_LOCKED_SHAREDCACHE", "did not finish in time", True),
        ("SQLITE_READONLY_DBMOVED", "may not be written", False),
        ("SQLITE_TOOBIG", "refused a statement with the code SQLITE_TOOBIG", False),
    ],
)
def test_a_certain_answer_is_told_as_what_it_is_and_never_as_none(code: str, what: str, passes: bool) -> None:
    found = meaning(Answered(code))
    assert what in found.what
    assert found.passes is passes
    assert found.passes or found.remedy


def test_a_database_without_a_free_connection_is_an_outage_of_that_name(weak: sa.URL) -> None:
    _server().psql(f"ALTER DATABASE {weak.database} CONNECTION LIMIT 0")
    with pytest.raises(DatabaseUnavailable, match="has no connection left") as problem:
        Access(weak.render_as_string())
    assert type(problem.value) is DatabaseUnavailable


def test_tables_of_a_later_version_are_told_as_such(postgres: sa.URL) -> None:
    Access(str(postgres)).close()
    access = Access(str(postgres))
    (versions,) = {name for name in sa.inspect(access._database._engine).get_table_names() if "version" in name}
    with access._database.begin() as connection:
        connection.execute(sa.text(f"UPDATE {versions} SET version_num = 'later'"))
    access.close()
    with pytest.raises(DatabaseRefusal, match="used by a later version"):
        Access(str(postgres))


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda file: file.write_bytes(b"not SQLite" * 100), "is no database"),
        (lambda file: file.mkdir(), "is a file that cannot be opened"),
        (lambda file: file.parent.rmdir() or file.parent.write_text(""), "does not answer"),
    ],
)
def test_each_refusal_of_sqlite_is_told_as_what_it_is(tmp_path: Path, made: Any, what: str) -> None:
    file = tmp_path / "state" / "access.db"
    file.parent.mkdir()
    made(file)
    with pytest.raises(DatabaseUnavailable, match=what):
        Access(f"sqlite:///{file}")


@pytest.mark.parametrize("url", ["postgresql://u@h:port/x", "no such thing", "nodialect://x"])
def test_what_is_no_url_of_a_database_is_told_as_such(url: str) -> None:
    with pytest.raises(UserError, match="cannot be used"):
        Access(url)


def process_of(connection: sa.Connection) -> int:
    """The server's process that answers ``connection``."""
    return int(connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one())


@contextmanager
def frozen(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.fixture
def access(postgres: sa.URL, monkeypatch: pytest.MonkeyPatch) -> Iterator[Access]:
    """With little patience."""
    access = Access(str(postgres))
    monkeypatch.setattr("ft_resources.database._LONGEST_S", 0.5)
    yield access
    access.close()


def asks_a_frozen_server(access: Access) -> None:
    with access._database.begin() as connection, frozen(process_of(connection)):
        connection.execute(sa.text("SELECT 1"))


def asks_for_long(access: Access) -> None:
    with access._database.connect() as connection:
        connection.execute(sa.text("SELECT pg_sleep(600)"))


@pytest.mark.parametrize("asks", [asks_a_frozen_server, asks_for_long])
def test_a_statement_without_an_answer_ends_with_an_error_and_the_next_is_answered(access: Access, asks: Any) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"did not finish in time|does not answer"):
        asks(access)
    access.check()


def test_a_connection_of_the_pool_that_turns_out_frozen_is_replaced(access: Access) -> None:
    with access._database.connect() as connection:
        process = process_of(connection)
    with frozen(process):
        access.check()


def test_a_postgresql_that_takes_connections_and_answers_none_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ft_resources.database._CONNECT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(DatabaseUnavailable, match="does not answer"):
            Access(f"postgresql://somebody@127.0.0.1:{silent.getsockname()[1]}/ft")
