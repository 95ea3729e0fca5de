"""A code version that was raised shows in Dagster what has to be made again."""

from pathlib import Path

import dagster as dg
import pytest

from ft_assets.definitions import defs
from tests.dagster_private import CachingStaleStatusResolver, LoadingContextForTest, StaleStatus
from tests.journeys import Journey, copied

pytestmark = pytest.mark.e2e


def _with_code_version(asset: str, version: str) -> dg.Definitions:
    """The definitions of a release that raised one asset's code version."""
    assets = [
        each.map_asset_specs(
            lambda spec: spec.replace_attributes(code_version=version) if spec.key == dg.AssetKey(asset) else spec
        )
        for each in defs.resolve_asset_graph().assets_defs
    ]
    return dg.Definitions(assets=assets)


def test_a_raised_code_version_shows_its_pairs_as_out_of_date_and_what_hangs_on_them_once_the_new_pack_is_another(
    accepted: Journey, tmp_path: Path
) -> None:
    mine = copied(accepted, tmp_path / "mine")
    keys = {
        **dict.fromkeys(("raw_dataset", "dataset"), mine.dataset),
        **dict.fromkeys(("base_model", "baseline_report"), mine.recipe),
        **dict.fromkeys(("token_pack", "checkpoint", "eval_report", "adapter"), mine.pair),
    }
    raised = _with_code_version("token_pack", "another")

    def causes(of: dg.Definitions) -> dict[str, list[str]]:
        look = CachingStaleStatusResolver(
            instance, of.resolve_asset_graph(), loading_context=LoadingContextForTest(instance)
        )
        found = {asset: look.get_stale_causes(dg.AssetKey(asset), key) for asset, key in keys.items()}
        assert StaleStatus.MISSING not in {look.get_status(dg.AssetKey(asset), key) for asset, key in keys.items()}
        return {asset: [cause.reason for cause in each] for asset, each in found.items() if each}

    with mine.instance() as instance:
        assert causes(defs) == {}
        assert causes(raised) == {"token_pack": ["has a new code version"]}
        # An equal pack leaves the training what it was, as its identity holds the pack's digest and not its code.
        (last,) = instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=dg.AssetKey("token_pack"), asset_partitions=[mine.pair]), limit=1
        ).records
        assert last.asset_materialization
        tags = {**(last.asset_materialization.tags or {}), "dagster/code_version": "another"}
        for changed, expected in (
            ({}, {}),
            ({"dagster/data_version": "other"}, {"checkpoint": ["has a new dependency data version"]}),
        ):
            again = dg.AssetMaterialization(asset_key="token_pack", partition=mine.pair, tags={**tags, **changed})
            instance.report_runless_asset_event(again)
            assert causes(raised) == expected
