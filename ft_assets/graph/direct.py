"""Pairs launched straight from the UI are submissions too: recorded by the run itself, and limited in number."""

from collections.abc import Mapping

import dagster as dg

from ft_assets.control.submissions.submit import submit
from ft_assets.graph.actors import launching
from ft_assets.records.carries import find_carry
from ft_assets.records.submissions import Submission
from ft_assets.settings import tags
from ft_assets.settings.environment import max_pairs
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.tenants import load_tenants
from ft_resources.dagster_private import cancel_backfill
from ft_resources.errors import UserError
from ft_resources.store import Store

_PAIR_ASSETS = [dg.AssetKey(name) for name in ("token_pack", "checkpoint", "eval_report", "adapter")]


def record_direct_launch(
    context: dg.AssetExecutionContext, store: Store, dataset: str, recipe: str
) -> Submission | None:
    """Record a submission for a run that was launched without one, if it makes an adapter. Raises UserError for a
    backfill over more pairs than the limit, before any work starts.
    """
    run = context.run
    if tags.SUBMISSION in run.tags or dg.AssetKey("adapter") not in context.job_def.asset_layer.executable_asset_keys:
        return None
    backfill_id = run.tags.get("dagster/backfill", "")
    if backfill_id:
        check_size(context.instance, backfill_id, run.tags)
    DatasetKey.parse(dataset)
    submission, _ = submit(
        store,
        load_tenants(),
        dataset=dataset,
        recipe=recipe,
        actor=launching(),
        origin="backfill" if backfill_id else "ui",
        driver="run",
        idempotency_key=f"run-{run.root_run_id or run.run_id}",
        run_id=run.root_run_id or run.run_id,
        # What the run will find: materializing a carried pair again trains nothing, and must not end its carry.
        mode="carry" if find_carry(store, dataset, recipe) else "train",
    )
    return submission


def check_size(instance: dg.DagsterInstance, backfill_id: str, run_tags: Mapping[str, str]) -> None:
    """Raise UserError for a backfill over more pairs than ``FT_MAX_PAIRS`` (25), unless its tags allow as many. The
    backfill is cancelled then, as each of its pairs would be queued only to fail."""
    limit = max_pairs()
    pairs = _pairs_of(instance, backfill_id)
    if pairs > max(limit, int(run_tags.get(tags.ALLOW_PAIRS, "0"))):
        cancel_backfill(instance, backfill_id)
        raise UserError(
            f"this backfill has {pairs} trainings; the limit is {limit}, so it is cancelled",
            where=f"backfill {backfill_id}",
            remedy=f"Choose fewer pairs, or launch it with the tag {tags.ALLOW_PAIRS}={pairs} to allow all of them.",
        )


def _pairs_of(instance: dg.DagsterInstance, backfill_id: str) -> int:
    """Number of pairs in the backfill."""
    backfill = instance.get_backfill(backfill_id)
    if backfill is None:
        return 0
    if backfill.asset_backfill_data is None:
        return len(backfill.partition_names or [])
    subset = backfill.asset_backfill_data.target_subset
    return max((len(subset.get_partitions_subset(key)) for key in _PAIR_ASSETS if key in subset), default=0)
