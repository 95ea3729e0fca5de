import time

import dagster as dg
import pytest

from ft_assets.graph.direct import check_size
from ft_assets.settings import tags
from ft_assets.settings.environment import MAX_PAIRS
from ft_resources.errors import UserError
from tests.dagster_private import BulkActionStatus, PartitionBackfill


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


def test_a_backfill_over_more_pairs_than_the_limit_is_refused_with_the_way_to_allow_it() -> None:
    with dg.instance_for_test() as instance:
        backfill = backfill_of(instance, MAX_PAIRS + 1)
        with pytest.raises(UserError, match=f"tag {tags.ALLOW_PAIRS}={MAX_PAIRS + 1}"):
            check_size(instance, backfill, {})
        with pytest.raises(UserError, match="asks for 26 trainings"):
            check_size(instance, backfill, {tags.ALLOW_PAIRS: "25"})
        check_size(instance, backfill, {tags.ALLOW_PAIRS: str(MAX_PAIRS + 1)})


def test_a_backfill_that_is_refused_is_cancelled_and_one_that_is_not_or_is_over_stays_as_it_is() -> None:
    with dg.instance_for_test() as instance:

        def status() -> BulkActionStatus:
            found = instance.get_backfill(backfill)
            assert found is not None
            return found.status

        backfill = backfill_of(instance, MAX_PAIRS + 1)
        check_size(instance, backfill, {tags.ALLOW_PAIRS: str(MAX_PAIRS + 1)})
        assert status() is BulkActionStatus.REQUESTED
        for before in (BulkActionStatus.REQUESTED, BulkActionStatus.COMPLETED_FAILED):
            found = instance.get_backfill(backfill)
            assert found is not None
            instance.update_backfill(found.with_status(before))
            with pytest.raises(UserError, match="so it is cancelled"):
                check_size(instance, backfill, {})
            assert status() is (BulkActionStatus.CANCELING if before is BulkActionStatus.REQUESTED else before)


def test_a_backfill_within_the_limit_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    with dg.instance_for_test() as instance:
        backfill = backfill_of(instance, MAX_PAIRS)
        check_size(instance, backfill, {})
        monkeypatch.setenv("FT_MAX_PAIRS", "3")
        with pytest.raises(UserError, match="the limit is 3"):
            check_size(instance, backfill, {})
