"""Artifacts shown in Dagster without a run: its partitions and materializations again from the store."""

from collections.abc import Iterable
from contextlib import suppress
from functools import cache

import dagster as dg

from ft_assets.api import Known
from ft_assets.graph.assets.datasets import upload_metadata
from ft_assets.graph.checks.datasets import partition_verdict
from ft_assets.graph.checks.evals import gate_results, partition_verdicts
from ft_assets.graph.checks.packs import doctor_results, partition_findings
from ft_assets.graph.checks.rollouts import outcomes_result
from ft_assets.graph.checks.serving import parity_result
from ft_assets.graph.declared import declared
from ft_assets.graph.glue import common_metadata
from ft_assets.graph.partitions import pair_key
from ft_assets.graph.shown_checks import show_checks
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.environment import default_store_url
from ft_resources.errors import UserError

# Tags by which Dagster knows what a materialization holds and was made of.
_DATA, _CODE, _INPUT = "dagster/data_version", "dagster/code_version", "dagster/input_data_version"


def show_artifacts(instance: dg.DagsterInstance, known: Iterable[Known]) -> int:
    """Report each artifact as its partition's materialization, with the verdicts of its checks, unless Dagster's last
    one is of it already; how many were added."""
    added = 0
    for each in known:
        asset, digest = dg.AssetKey(each.asset), each.artifact.digest
        records = dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[_partition(each)])
        last = instance.fetch_materializations(records, limit=1).records
        if last and last[0].asset_materialization and (last[0].asset_materialization.tags or {}).get(_DATA) == digest:
            continue
        # Dagster compares these with the parents' versions to tell whether something is stale.
        parents = _parents(each.asset) if each.above else []
        inputs = {f"{_INPUT}/{name}": each.above[name].digest for name in parents if name in each.above}
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                asset_key=asset,
                partition=_partition(each),
                metadata=_metadata(each.asset, each.artifact),
                tags={_DATA: digest, _CODE: CODE_VERSIONS[each.asset], **inputs},
            )
        )
        # Without them it would read as one whose checks were forgotten; evidence that cannot be read has no verdict.
        with suppress(UserError):
            show_checks(instance, _checks(each), _partition(each))
        added += 1
    return added


@cache
def _parents(asset: str) -> list[str]:
    graph = declared(default_store_url()).resolve_asset_graph()
    return sorted(parent.to_user_string() for parent in graph.get(dg.AssetKey(asset)).parent_keys)


def _metadata(asset: str, artifact: Artifact) -> dict[str, dg.MetadataValue]:
    return upload_metadata(artifact) if asset == "raw_dataset" else common_metadata(artifact)


def _checks(known: Known) -> Iterable[dg.AssetCheckResult]:
    artifacts, partition = Artifacts(known.artifact.store), _partition(known)
    if known.asset == "dataset":
        return [partition_verdict(artifacts, partition)]
    if known.asset == "token_pack":
        return doctor_results(partition_findings(artifacts, partition))
    if known.asset == "adapter":
        return [parity_result(artifacts, known.artifact), outcomes_result(artifacts, known.artifact)]
    return gate_results(partition_verdicts(artifacts, partition)) if known.asset == "eval_report" else []


def _partition(known: Known) -> str:
    """The Dagster partition key."""
    return known.keys[0] if len(known.keys) == 1 else pair_key(*known.keys)
