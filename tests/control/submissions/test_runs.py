"""Submissions in Dagster's runs, backfills and partitions."""

import sqlite3
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError

from ft_assets.control.submissions.plan import RunState, Stage
from ft_assets.graph.direct import check_size
from ft_assets.graph.listed_keys import active_partitions, busy_keys, list_keys
from ft_assets.graph.runs import SubmissionRuns, run_states
from ft_assets.settings import tags
from ft_assets.settings.environment import MAX_PAIRS
from ft_resources.errors import UserError
from ft_resources.run_states import ACTIVE_STATUSES
from tests.dagster_private import BulkActionStatus, PartitionBackfill, create_run_for_test
from tests.made import made_submission

SUBMISSION = made_submission()


@pytest.mark.parametrize(
    ("retries", "decision", "state"),
    [
        (True, None, RunState.ACTIVE),
        (True, "true", RunState.ACTIVE),
        (True, "false", RunState.FAILED),
        (False, None, RunState.FAILED),
    ],
)
def test_a_run_has_failed_for_good_only_when_dagster_will_not_retry_it(retries, decision, state) -> None:
    run_tags = {tags.SUBMISSION: SUBMISSION.id}
    if decision is not None:
        run_tags["dagster/will_retry"] = decision
    with dg.DagsterInstance.ephemeral(settings={"run_retries": {"enabled": retries}}) as instance:
        # The moment between Dagster's two writes: the status is stored, the decision is not.
        run = dg.DagsterRun(job_name=str(Stage.TRAIN_PAIR), tags=run_tags, status=dg.DagsterRunStatus.FAILURE)
        instance.add_run(run)
        assert run_states(instance, SUBMISSION) == SubmissionRuns(stages={Stage.TRAIN_PAIR: state})


def backfill_of(instance: dg.DagsterInstance, pairs: int) -> str:
    """A recorded backfill over so many pairs; its id."""
    backfill = PartitionBackfill(
        backfill_id="bf",
        partition_set_origin=None,
        status=BulkActionStatus.REQUESTED,
        partition_names=[f"acme.x.v{number}|tiny.v1" for number in range(1, pairs + 1)],
        from_failure=False,
        reexecution_steps=None,
        tags={},
        backfill_timestamp=time.time(),
    )
    instance.add_backfill(backfill)
    return "bf"


def test_a_backfill_over_more_pairs_than_the_limit_is_refused_with_the_way_to_allow_it_and_fewer_pass(
    monkeypatch,
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        backfill = backfill_of(instance, MAX_PAIRS + 1)
        with pytest.raises(UserError, match=f"tag {tags.ALLOW_PAIRS}={MAX_PAIRS + 1}"):
            check_size(instance, backfill, {})
        with pytest.raises(UserError, match="has 26 trainings"):
            check_size(instance, backfill, {tags.ALLOW_PAIRS: "25"})
        check_size(instance, backfill, {tags.ALLOW_PAIRS: str(MAX_PAIRS + 1)})
    with dg.DagsterInstance.ephemeral() as instance:
        backfill = backfill_of(instance, MAX_PAIRS)
        check_size(instance, backfill, {})
        monkeypatch.setenv("FT_MAX_PAIRS", "3")
        with pytest.raises(UserError, match="the limit is 3"):
            check_size(instance, backfill, {})


def test_a_backfill_that_is_refused_is_cancelled_and_one_that_is_not_or_is_over_stays_as_it_is() -> None:
    with dg.DagsterInstance.ephemeral() as instance:

        def status() -> BulkActionStatus:
            found = instance.get_backfill(backfill)
            return found.status

        backfill = backfill_of(instance, MAX_PAIRS + 1)
        check_size(instance, backfill, {tags.ALLOW_PAIRS: str(MAX_PAIRS + 1)})
        assert status() is BulkActionStatus.REQUESTED
        for before in (BulkActionStatus.REQUESTED, BulkActionStatus.COMPLETED_FAILED):
            found = instance.get_backfill(backfill)
            instance.update_backfill(found.with_status(before))
            with pytest.raises(UserError, match="so it is cancelled"):
                check_size(instance, backfill, {})
            assert status() is (BulkActionStatus.CANCELING if before is BulkActionStatus.REQUESTED else before)


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


def test_keys_that_another_process_adds_at_the_same_moment_are_added_once(instance, tmp_path) -> None:
    with Others(tmp_path, 1) as others, pytest.raises(IntegrityError):
        instance.add_dynamic_partitions("dataset", ["acme.dagster.v1"])
    with Others(tmp_path, 2) as others:
        list_keys(instance, dataset="acme.docs.v1", recipe="small.v1")
    assert others.times == 0
    assert instance.get_dynamic_partitions("dataset") == ["acme.before.v1", "acme.dagster.v1", "acme.docs.v1"]
    assert instance.get_dynamic_partitions("recipe") == ["small.v1"]


def test_what_is_busy_is_read_without_the_runs_that_a_backfill_has_queued(instance, monkeypatch) -> None:
    # A queued one would have to say where its job comes from.
    statuses = [each for each in dg.DagsterRunStatus if each is not dg.DagsterRunStatus.QUEUED]
    for status in statuses:
        create_run_for_test(instance, status=status, tags={"dagster/partition": f"acme.{status.name}.v1|small.v1"})
    create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED)
    monkeypatch.setattr(dg.DagsterInstance, "get_runs", None)
    active = {f"acme.{status.name}.v1|small.v1" for status in statuses if status in ACTIVE_STATUSES}
    assert active_partitions(instance) == active
    assert busy_keys(instance) == {part for pair in active for part in pair.split("|")}
