"""SQLite as the platform uses it: safe once a transaction has ended, and quick to end one."""

import sqlite3
from pathlib import Path

import sqlalchemy as sa

from ft_assets.control.access.api_keys import Access
from ft_resources.database import _prepare_sqlite


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
