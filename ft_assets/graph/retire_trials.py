"""Taking the keys of trials off Dagster's list, when nobody works with them any more."""

from collections.abc import Sequence

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus

from ft_assets.submissions.record import open_submissions
from ft_assets.sweeps.retired import decided_sweeps, forget_reminder, plan_retiring, record_retired
from ft_resources.store import Store

_RECIPE = "recipe"
_PARTITION = "dagster/partition/recipe"
_ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
_ACTIVE = [status for status in dg.DagsterRunStatus if status not in _ENDED]


def retire_trials(store: Store, instance: dg.DagsterInstance) -> list[str]:
    """Retire the trials of every decided sweep that has no open submission, run or backfill; the keys taken off.

    What the store holds of them stays. A sweep that is asked for on another dataset lists its trials again for as long
    as it needs them.
    """
    decided = decided_sweeps(store)
    if not decided:
        return []
    keys = [key for item in decided for key in (item.sweep, *item.trials)]
    wanted = {submission.recipe for submission in open_submissions(store, problems=[])}
    plans = plan_retiring(
        decided, listed=set(instance.get_dynamic_partitions(_RECIPE)), wanted=wanted, busy=_busy(instance, keys)
    )
    gone = []
    for plan in plans:
        # In this order, so that whoever dies in between leaves the reminder for the next.
        record_retired(store, plan.sweep)
        for key in plan.keys:
            instance.delete_dynamic_partition(_RECIPE, key)
            gone.append(key)
        forget_reminder(store, plan.sweep)
    return gone


def _busy(instance: dg.DagsterInstance, keys: Sequence[str]) -> set[str]:
    """Which of ``keys`` have a run that has not ended; all of them during any backfill, which may be about to."""
    if instance.get_backfills(status=BulkActionStatus.REQUESTED, limit=1):
        return set(keys)
    filters = dg.RunsFilter(tags={_PARTITION: list(keys)}, statuses=_ACTIVE)
    return {run.tags[_PARTITION] for run in instance.get_runs(filters=filters)}
