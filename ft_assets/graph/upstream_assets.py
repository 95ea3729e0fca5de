"""Assets of other code locations that datasets are made from."""

from datetime import UTC, datetime

import dagster as dg

from ft_assets.graph import partitions
from ft_assets.settings.tenants import NO_TENANTS, TenantsFile, load_tenants
from ft_resources.errors import UserError

# The lineage draws it, and no version waits for a partition of it.
_SOURCE = dg.AssetDep("source", partition_mapping=dg.SpecificPartitionsPartitionMapping([]))


def below_upstream(raw_dataset: dg.AssetsDefinition) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """``raw_dataset`` as the lineage draws it: below every asset that ``tenants.yaml`` lets a tenant's source wait for,
    with ``source`` between them.

    With a tenants file that cannot be read it stands alone; the sensors say what is wrong with the file.
    """
    upstream = sorted({asset for tenant in _tenants().tenants.values() for asset in tenant.assets})
    if not upstream:
        return [raw_dataset]
    # Dagster would call each version out of sync when an asset without partitions above it is materialized again, and
    # versions uploaded by hand too. Of a parent with partitions none need be a version's.
    source = dg.AssetSpec(
        "source",
        deps=[dg.AssetKey(asset.split("/")) for asset in upstream],
        description="Source of the rows of watched datasets. `ft dataset watched` lists them; each version of "
        "raw_dataset records its source.",
        group_name=partitions.GROUP,
        owners=["team:ml-platform"],
        partitions_def=partitions.source_partitions,
    )
    below = raw_dataset.map_asset_specs(lambda spec: spec.merge_attributes(deps=[_SOURCE]))
    return [source, below]


def last_materialization(instance: dg.DagsterInstance, asset: str) -> str:
    """Such as ``warehouse/tickets at 2026-11-24T03:55:05+00:00 by run 38d5114b``; "" if there is none."""
    event = instance.get_latest_materialization_event(dg.AssetKey(asset.split("/")))
    if event is None:
        return ""
    at = datetime.fromtimestamp(event.timestamp, UTC).isoformat(timespec="milliseconds")
    return f"{asset} at {at}{f' by run {event.run_id[:8]}' if event.run_id else ''}"


def _tenants() -> TenantsFile:
    try:
        return load_tenants()
    except UserError:
        return NO_TENANTS
