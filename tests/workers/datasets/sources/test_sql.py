"""A query's rows, from SQLite and a real PostgreSQL."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import sqlalchemy as sa

from ft_assets.settings.connections import SqlConnection
from ft_assets.workers.datasets.sources.place import SourceUnavailable
from ft_assets.workers.datasets.sources.sql import Query
from ft_resources.errors import BadData, UserError
from tests.postgres import postgres_database

NAME = "FT_SOURCE_TEST"
ROWS = [(f"question {number}", f"answer {number}", f"2026-11-{number + 1:02d} 10:00:00") for number in range(20)]


def engine_of(url: str) -> sa.Engine:
    return sa.create_engine(url.replace("postgresql:", "postgresql+psycopg2:"))


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sa.Engine]:
    def made(url: str) -> sa.Engine:
        monkeypatch.setenv(NAME, url)
        engine = engine_of(url)
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE tickets (question TEXT, answer TEXT, at TIMESTAMP)")
        add(engine, ROWS)
        return engine

    if request.param == "sqlite":
        yield made(f"sqlite:///{tmp_path}/tickets.db")
        return
    with postgres_database() as url:
        engine = made(url)
        yield engine
        engine.dispose()


def add(engine: sa.Engine, rows: list[tuple[str, str, str]]) -> None:
    with engine.begin() as connection:
        values = [dict(zip(("question", "answer", "at"), row, strict=True)) for row in rows]
        connection.execute(sa.text("INSERT INTO tickets VALUES (:question, :answer, :at)"), values)


def opened(query: str = "SELECT question AS prompt, answer AS completion, at FROM tickets", mark: str = "at") -> Query:
    return Query(SqlConnection(kind="sql", url=NAME), query, mark or None)


def rows_of(place: Query, folder: Path, most: int | None = None) -> list[dict[str, str]]:
    (path,) = place.fetch(folder, most_rows=most).files
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_all_rows_up_to_the_watermark_come_in_its_order(engine: sa.Engine, tmp_path: Path) -> None:
    add(engine, [("an early question", "late added", "2026-10-01 00:00:00")])
    found = rows_of(opened(), tmp_path)
    assert [row["prompt"] for row in found] == ["an early question", *(row[0] for row in ROWS)]
    assert found[1]["at"].replace("T", " ") == ROWS[0][2]


def test_new_changed_and_removed_rows_are_noticed_and_a_second_look_at_the_same_is_not(engine: sa.Engine) -> None:
    seen = [opened().look(), opened().look()]
    add(engine, [("late", "row", "2026-12-01 00:00:00")])
    seen.append(opened().look())
    add(engine, [("with an old", "watermark", "2026-11-01 00:00:00")])
    seen.append(opened().look())
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM tickets WHERE question = 'question 3'")
    seen.append(opened().look())
    assert [one != next_ for one, next_ in pairwise(seen)] == [False, True, True, True]


def test_what_was_fetched_is_what_is_recorded_as_seen(engine: sa.Engine, tmp_path: Path) -> None:
    assert opened().fetch(tmp_path, most_rows=None).seen == opened().look()


def test_a_database_gives_no_more_rows_than_it_takes_to_refuse_them(engine: sa.Engine, tmp_path: Path) -> None:
    assert len(rows_of(opened(), tmp_path, most=5)) == 6


@pytest.mark.parametrize(
    "query",
    [
        "SELECT question AS prompt, 'at 12:30, not :late' AS completion, at FROM tickets",
        "SELECT question AS prompt, '50% of :all \\ \\: rows' AS completion, at FROM tickets WHERE 'a' LIKE '%a%'",
    ],
)
def test_colons_percent_signs_and_backslashes_of_a_query_are_its_own(
    engine: sa.Engine, tmp_path: Path, query: str
) -> None:
    wanted = query.split("'")[1]
    assert {row["completion"] for row in rows_of(opened(query), tmp_path)} == {wanted}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT question, at FROM nowhere",
        "SELECT nothing, at FROM tickets",
        "this is no query",
        "DELETE FROM tickets RETURNING question, at",
    ],
)
def test_a_query_that_cannot_work_is_refused_in_the_databases_words_and_changes_nothing(
    engine: sa.Engine, tmp_path: Path, query: str
) -> None:
    with pytest.raises(UserError, match="the database refused the query") as error:
        opened(query).fetch(tmp_path, most_rows=None)
    assert not isinstance(error.value, SourceUnavailable)
    assert "postgresql://" not in str(error.value)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM tickets").scalar() == len(ROWS)


def test_a_missing_right_and_an_unknown_user_are_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres_database() as url:
        parsed = sa.make_url(url)
        reader = f"reader_{parsed.database}"
        with engine_of(url).begin() as connection:
            connection.exec_driver_sql(f"CREATE TABLE tickets (at INT); CREATE ROLE {reader} LOGIN")
        monkeypatch.setenv(NAME, parsed.set(username=reader).render_as_string())
        with pytest.raises(UserError, match="permission denied for table tickets") as denied:
            opened("SELECT at FROM tickets").fetch(tmp_path, most_rows=None)
        assert "Grant" in denied.value.remedy
        monkeypatch.setenv(NAME, parsed.set(username="nobody").render_as_string())
        with pytest.raises(SourceUnavailable, match="does not let this user in") as unknown:
            opened("SELECT at FROM tickets").look()
        assert "the password in its URL" in unknown.value.remedy
        with engine_of(url).begin() as connection:
            connection.exec_driver_sql(f"DROP ROLE {reader}")


def test_a_function_that_writes_is_refused_where_the_database_can_tell(tmp_path: Path, monkeypatch) -> None:
    with postgres_database() as url:
        monkeypatch.setenv(NAME, url)
        with engine_of(url).begin() as connection:
            connection.exec_driver_sql("CREATE TABLE kept (at INT)")
            connection.exec_driver_sql(
                "CREATE FUNCTION add() RETURNS INT LANGUAGE sql AS 'INSERT INTO kept VALUES (1) RETURNING at'"
            )
        with pytest.raises(UserError, match="read-only transaction"):
            opened("SELECT add() AS at").fetch(tmp_path, most_rows=None)


def test_a_column_without_a_json_form_is_named_with_its_row(engine: sa.Engine, tmp_path: Path) -> None:
    with pytest.raises(BadData, match="has no JSON form") as error:
        opened(
            "SELECT CAST('abc' AS BYTEA) AS prompt, at FROM tickets"
            if engine.dialect.name == "postgresql"
            else "SELECT CAST('abc' AS BLOB) AS prompt, at FROM tickets"
        ).fetch(tmp_path, most_rows=None)
    assert error.value.where == "source.sql.query, row 1"


def test_a_database_that_is_away_is_told_without_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "postgresql://reader:very-secret@127.0.0.1:1/none")
    with pytest.raises(SourceUnavailable) as error:
        opened().look()
    assert "very-secret" not in str(error.value)
    for url in ("no url with very-secret", "nosuch://u:very-secret@h/d", ""):
        monkeypatch.setenv(NAME, url)
        with pytest.raises(UserError, match=NAME) as refused:
            opened().look()
        assert "very-secret" not in str(refused.value)


def test_a_query_may_end_in_a_comment(engine: sa.Engine) -> None:
    assert opened("SELECT at FROM tickets -- all of them").look().endswith("20 rows")


def test_a_query_that_comments_the_limit_away_gives_no_more_rows(engine: sa.Engine, tmp_path: Path) -> None:
    query = opened("SELECT at FROM tickets) AS asked /*", mark="")
    if engine.dialect.name == "sqlite":
        assert len(rows_of(query, tmp_path, most=5)) == 6
    else:
        with pytest.raises(UserError, match="refused the query"):
            rows_of(query, tmp_path, most=5)


def test_rows_without_a_watermark_are_told_and_not_left_out(engine: sa.Engine, tmp_path: Path) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO tickets VALUES ('new', 'row', NULL)")
    for read in (opened().look, lambda: opened().fetch(tmp_path, most_rows=None)):
        with pytest.raises(BadData, match="1 of 21 rows have no at"):
            read()


def test_a_long_watermark_is_told_by_its_digest(engine: sa.Engine) -> None:
    times = "||".join(["question"] * 30)
    seen = opened(f"SELECT {times} AS at FROM tickets").look()
    assert len(seen) < 200
    assert (
        opened(f"SELECT {times} AS at FROM tickets WHERE answer <> 'answer 9'").look().split(",")[0]
        != seen.split(",")[0]
    )


def test_a_date_that_python_does_not_have_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres_database() as url:
        monkeypatch.setenv(NAME, url)
        with pytest.raises(BadData, match="year 20000 is out of range"):
            opened("SELECT TIMESTAMP '20000-01-01' AS at").look()


def test_a_query_without_an_end_ends_where_sqlite_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, f"sqlite:///{tmp_path}/empty.db")
    endless = "WITH RECURSIVE n(at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM n) SELECT at FROM n"
    with pytest.raises(UserError, match="interrupted"):
        Query(SqlConnection(kind="sql", url=NAME, seconds=0.3), endless, "at").look()
