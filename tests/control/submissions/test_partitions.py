"""Keys that are made known to Dagster while others make them known, too."""

import sqlite3
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError

from ft_assets.graph.listed_keys import active_partitions, busy_keys, list_keys
from ft_resources.run_states import ACTIVE_STATUSES
from tests.dagster_private import create_run_for_test


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


def test_what_is_busy_is_read_without_the_runs_that_a_backfill_has_queued(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A queued one would have to say where its job comes from.
    statuses = [each for each in dg.DagsterRunStatus if each is not dg.DagsterRunStatus.QUEUED]
    for status in statuses:
        create_run_for_test(instance, status=status, tags={"dagster/partition": f"acme.{status.name}.v1|small.v1"})
    create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED)
    monkeypatch.setattr(dg.DagsterInstance, "get_runs", None)
    active = {f"acme.{status.name}.v1|small.v1" for status in statuses if status in ACTIVE_STATUSES}
    assert active_partitions(instance) == active
    assert busy_keys(instance) == {part for pair in active for part in pair.split("|")}
