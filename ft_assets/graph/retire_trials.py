"""Taking the keys of trials off Dagster's list, when nobody works with them any more."""

from collections.abc import Sequence

import dagster as dg

from ft_assets.control.sweeps.trial_retirement import decided_sweeps, forget_reminder, plan_retiring, record_retired
from ft_assets.graph.listed_keys import busy_keys, unlist_keys
from ft_assets.records.submissions import open_submissions
from ft_resources.dagster_private import any_backfill
from ft_resources.store import Store


def retire_trials(store: Store, instance: dg.DagsterInstance) -> list[str]:
    """Retire the trials of every decided sweep that has no open submission, run or backfill. Returns the keys taken off
    Dagster's list. Their artifacts stay in the store. A sweep submitted on another dataset lists its trials again while
    it needs them.
    """
    decided = decided_sweeps(store)
    if not decided:
        return []
    keys = [key for item in decided for key in (item.sweep, *item.trials)]
    wanted = {submission.recipe for submission in open_submissions(store, problems=[])}
    plans = plan_retiring(
        decided, listed=set(instance.get_dynamic_partitions("recipe")), wanted=wanted, busy=_busy(instance, keys)
    )
    gone: list[str] = []
    for plan in plans:
        # In this order, so that whoever dies in between leaves the reminder for the next.
        record_retired(store, plan.sweep)
        unlist_keys(instance, "recipe", plan.keys)
        gone += plan.keys
        forget_reminder(store, plan.sweep)
    return gone


def _busy(instance: dg.DagsterInstance, keys: Sequence[str]) -> set[str]:
    """Keys with an unfinished run; all of ``keys`` during any backfill, which may be about to launch one."""
    if any_backfill(instance):
        return set(keys)
    return busy_keys(instance)
