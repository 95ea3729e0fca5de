"""Check results shown in Dagster without a run."""

from collections.abc import Iterable

import dagster as dg

from ft_resources.dagster_private import JudgedMaterialization


def show_checks(instance: dg.DagsterInstance, results: Iterable[dg.AssetCheckResult], partition: str) -> bool:
    """Report results on the partition's newest materialization; False if one was not taken.

    Dagster 1.13 takes one evaluation without a run per check and partition. One that does not name the partition's
    newest materialization counts as outdated: the UI then shows the check as not evaluated.
    """
    taken = [_show(instance, result, partition) for result in results]
    return all(taken)


def _show(instance: dg.DagsterInstance, result: dg.AssetCheckResult, partition: str) -> bool:
    from sqlalchemy.exc import IntegrityError

    assert result.asset_key is not None
    assert result.check_name is not None
    evaluation = dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        metadata=result.metadata,
        target_materialization_data=_newest(instance, result.asset_key, partition),
        severity=result.severity,
        description=result.description,
        partition=partition,
    )
    try:
        instance.report_runless_asset_event(evaluation)
    except IntegrityError:
        return False
    return True


def _newest(instance: dg.DagsterInstance, asset: dg.AssetKey, partition: str) -> JudgedMaterialization | None:
    records = dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[partition])
    for record in instance.fetch_materializations(records, limit=1).records:
        return JudgedMaterialization(
            run_id=record.event_log_entry.run_id, storage_id=record.storage_id, timestamp=record.timestamp
        )
    return None
