"""Retires old dataset versions, where the tenants file says how many are kept."""

from datetime import UTC, datetime

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus

from ft_assets.erasure.tombstones import Subject, delete
from ft_assets.keys import SHARED, DatasetKey
from ft_assets.retention.needed import mixes, needed, pointer
from ft_assets.retention.plan import candidates, plan_retention
from ft_assets.retention.retired import retire, retired_datasets
from ft_assets.retention.settings import Retention
from ft_assets.submissions.record import open_submissions
from ft_assets.tenants import TenantsFile, load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_resources.store import Store

ACTOR = "retention_sensor"
# Of candidates, how many a tick looks at, and of these how many it retires.
_BATCH, _MOST = 500, 50
_DIMENSION = "dataset"
_PARTITION = "dagster/partition/dataset"
_OVER = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


@dg.sensor(minimum_interval_seconds=600, default_status=dg.DefaultSensorStatus.RUNNING)
def retention_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Record what is retired, and take retired keys off Dagster's list once nobody works with them."""
    try:
        tenants = load_tenants()
        said = _retire(context, store, tenants)
        gone = _unlist(context.instance, store.store)
    except UserError as error:
        return dg.SkipReason(f"nothing is retired while something cannot be read: {error}")
    return dg.SkipReason(f"{said}; {gone} keys taken off the list" if gone else said)


def rules_of(tenants: TenantsFile, names: set[str]) -> dict[str, Retention]:
    """Each tenant's rule: its own, else the platform's."""
    own = {name: tenant.retention for name, tenant in tenants.tenants.items() if tenant.retention is not None}
    everybody = dict.fromkeys(names, tenants.retention) if tenants.retention is not None else {}
    return {name: rule for name, rule in {**everybody, **own}.items() if rule.on}


def _retire(context: dg.SensorEvaluationContext, store: StoreResource, tenants: TenantsFile) -> str:
    artifacts = store.artifacts
    listed = [DatasetKey.parse(name.removesuffix(".json")) for name in store.store.names("names/dataset")]
    rules = rules_of(tenants, {key.tenant for key in listed} | {SHARED})
    if not rules:
        return "no retention is configured"
    retired = retired_datasets(store.store)
    versions = [key for key in listed if str(key) not in retired]
    timed = [key for key in versions if key.tenant in rules and rules[key.tenant].keep_days is not None]
    added = {str(key): pointer(store.store, str(key))[1] for key in timed}
    wanted = candidates(versions, rules, added, datetime.now(UTC))
    # A hint of where the last tick ended, so that five hundred that are needed do not hide what comes after them.
    begin = wanted.index(context.cursor) + 1 if context.cursor in wanted else 0
    wanted = wanted[begin : begin + _BATCH] or wanted[:_BATCH]
    context.update_cursor(wanted[-1] if wanted else "")
    looked = f"looked at {len(versions)} dataset versions"
    if not wanted:
        return f"{looked}: none to retire"
    plan = plan_retention(wanted, needed(artifacts, wanted), mixes(artifacts, wanted, versions))
    for dataset in plan.retire[:_MOST]:
        rule = rules[DatasetKey.parse(dataset).tenant]
        reason = f"keep_versions: {rule.keep_versions}, keep_days: {rule.keep_days}"
        if rule.delete:
            # First, so that whoever dies in between leaves the version to the next tick.
            delete(store.store, Subject.dataset(DatasetKey.parse(dataset)), actor=ACTOR, reason=f"retired ({reason})")
        retire(store.store, dataset, actor=ACTOR, reason=reason)
        context.log.info(f"retired {dataset} ({reason})")
    for dataset, why in plan.kept.items():
        context.log.info(f"kept {dataset}: {why}")
    return f"{looked}: {len(plan.retire[:_MOST])} retired, {len(plan.kept)} kept as something needs them"


def _unlist(instance: dg.DagsterInstance, store: Store) -> int:
    """Take retired keys off Dagster's list that no open submission, run or backfill works with."""
    listed = set(instance.get_dynamic_partitions(_DIMENSION))
    going = sorted(listed & retired_datasets(store))[:_BATCH]
    if not going or instance.get_backfills(status=BulkActionStatus.REQUESTED, limit=1):
        return 0
    busy = {submission.dataset for submission in open_submissions(store)}
    active = [status for status in dg.DagsterRunStatus if status not in _OVER]
    for tag in (_PARTITION, "dagster/partition"):
        filters = dg.RunsFilter(tags={tag: going}, statuses=active)
        busy |= {run.tags[tag] for run in instance.get_runs(filters=filters)}
    free = [key for key in going if key not in busy]
    for key in free:
        instance.delete_dynamic_partition(_DIMENSION, key)
    return len(free)
