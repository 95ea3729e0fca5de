"""Keys that are made known to Dagster while others make them known, too."""

import sqlite3
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError

from ft_assets.graph.listed_keys import list_keys


@pytest.fixture
def instance(tmp_path: Path) -> Any:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        instance.add_dynamic_partitions("dataset", ["acme.before.v1"])
        yield instance


class Others:
    """Other processes that add a key right before our insert of it, ``times`` times."""

    def __init__(self, folder: Path, times: int) -> None:
        self.folder, self.times = folder, times

    def __enter__(self) -> "Others":
        event.listen(Engine, "before_cursor_execute", self._come_first)
        return self

    def __exit__(self, *_: object) -> None:
        event.remove(Engine, "before_cursor_execute", self._come_first)

    def _come_first(self, _connection: Any, _cursor: Any, statement: str, parameters: Any, *_: object) -> None:
        if not statement.startswith("INSERT INTO dynamic_partitions") or not self.times:
            return
        self.times -= 1
        (database,) = self.folder.rglob("index.db")
        with sqlite3.connect(database) as other:
            columns = "(partitions_def_name, partition)"
            other.execute(f"INSERT INTO dynamic_partitions {columns} VALUES (?, ?)", tuple(parameters[:2]))
        other.close()


def test_keys_that_another_process_adds_at_the_same_moment_are_added_once(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    with Others(tmp_path, 1) as others, pytest.raises(IntegrityError):
        instance.add_dynamic_partitions("dataset", ["acme.dagster.v1"])
    with Others(tmp_path, 2) as others:
        list_keys(instance, dataset="acme.docs.v1", recipe="small.v1")
    assert others.times == 0
    assert instance.get_dynamic_partitions("dataset") == ["acme.before.v1", "acme.dagster.v1", "acme.docs.v1"]
    assert instance.get_dynamic_partitions("recipe") == ["small.v1"]
    assert instance.get_dynamic_partitions("pair") == ["acme.docs.v1|small.v1"]
