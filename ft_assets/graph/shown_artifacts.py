"""Artifacts shown in Dagster without a run: its partitions and materializations again from the store."""

from collections.abc import Iterable

import dagster as dg

from ft_assets.api import Known
from ft_assets.graph.declared import declared
from ft_assets.graph.glue import common_metadata
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_resources.environment import default_store_url

# Tags by which Dagster knows what a materialization holds and was made of.
_DATA, _CODE, _INPUT = "dagster/data_version", "dagster/code_version", "dagster/input_data_version"


def show_artifacts(instance: dg.DagsterInstance, known: Iterable[Known]) -> int:
    """Report each artifact as its partition's materialization, unless Dagster's last one is of it already; how many
    were added."""
    graph = declared(default_store_url()).resolve_asset_graph()
    added = 0
    for each in known:
        asset, digest = dg.AssetKey(each.asset), each.artifact.digest
        records = dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[_partition(each)])
        last = instance.fetch_materializations(records, limit=1).records
        if last and last[0].asset_materialization and (last[0].asset_materialization.tags or {}).get(_DATA) == digest:
            continue
        # Dagster compares these with the parents' versions to tell whether something is stale.
        parents = sorted(parent.to_user_string() for parent in graph.get(asset).parent_keys)
        inputs = {f"{_INPUT}/{name}": each.above[name].digest for name in parents if name in each.above}
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                asset_key=asset,
                partition=_partition(each),
                metadata=common_metadata(each.artifact),
                tags={_DATA: digest, _CODE: CODE_VERSIONS[each.asset], **inputs},
            )
        )
        added += 1
    return added


def _partition(known: Known) -> str:
    """The Dagster partition key."""
    if len(known.keys) == 1:
        return known.keys[0]
    return dg.MultiPartitionKey({"dataset": known.keys[0], "recipe": known.keys[1]})
