"""One backfill over the whole graph, as Dagster's dialog makes it, of assets with different partitions."""

from collections.abc import Mapping, Sequence

import dagster as dg

from ft_assets.graph.declared import declared
from ft_assets.graph.listed_keys import add_keys
from ft_assets.graph.partitions import pair_key
from ft_assets.settings import tags
from ft_resources.dagster_private import request_backfill
from ft_resources.environment import default_store_url

OF_DATASET, OF_RECIPE = ("raw_dataset", "dataset"), ("base_model", "baseline_report")
OF_PAIR = ("token_pack", "checkpoint", "eval_report", "adapter")


def start_backfill(
    instance: dg.DagsterInstance, datasets: Sequence[str], recipes: Sequence[str], allow_pairs: int
) -> str:
    """Request every asset of each pair; the daemon orders the runs. Returns the backfill's id."""
    add_keys(instance, "dataset", set(datasets))
    add_keys(instance, "recipe", set(recipes))
    pairs = [pair_key(dataset, recipe) for dataset in datasets for recipe in recipes]
    wanted: Mapping[str, Sequence[str]] = {
        **dict.fromkeys(OF_DATASET, tuple(datasets)),
        **dict.fromkeys(OF_RECIPE, tuple(recipes)),
        **dict.fromkeys(OF_PAIR, tuple(pairs)),
    }
    graph = declared(default_store_url()).resolve_asset_graph()
    title = f"{len(pairs)} adapters" if len(pairs) > 1 else str(pairs[0])
    return request_backfill(
        instance, graph, wanted, title=title, tags={tags.ALLOW_PAIRS: str(allow_pairs)} if allow_pairs else {}
    )
