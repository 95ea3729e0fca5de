"""The ``token_pack`` asset."""

import dagster as dg

from ft_assets.control import identity
from ft_assets.control.planning.estimate import estimate_training
from ft_assets.graph.estimate_metadata import estimate_metadata
from ft_assets.graph.glue import common_metadata, pair_of, run_work
from ft_assets.graph.partitions import GROUP, of_dataset, of_recipe, pair_partitions
from ft_assets.graph.report_links import report_link
from ft_assets.graph.told import told
from ft_assets.settings import tags
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.tenants import load_tenants
from ft_assets.workers.datasets.reporting.pictures import length_picture
from ft_assets.workers.packs.report import SAMPLES_PAGE, pack_warnings
from ft_resources.dagster_resources import LauncherResource, StoreResource


@dg.asset(
    partitions_def=pair_partitions,
    deps=[of_dataset("dataset"), of_recipe("base_model")],
    group_name=GROUP,
    kinds={"python", "numpy"},
    owners=["team:ml-platform"],
    code_version=CODE_VERSIONS["token_pack"],
    tags={tags.WORKER: "cpu"},
)
@told
def token_pack(
    context: dg.AssetExecutionContext, store: StoreResource, launcher: LauncherResource
) -> dg.MaterializeResult:
    """Packed windows of exactly the tokens that the model should learn from, and the doctor's evidence for it."""
    dataset_key, recipe_key = pair_of(context.partition_key)
    request = identity.token_pack_request(store.artifacts, dataset_key, recipe_key)
    artifact = run_work(context, store, launcher, request)
    facts = artifact.facts
    room = facts["windows"] * facts["max_length"]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(artifact.digest),
        metadata={
            "warnings": dg.MetadataValue.md("\n".join(f"- {each}" for each in pack_warnings(facts)) or "none"),
            "samples": report_link(artifact, SAMPLES_PAGE),
            "examples": facts["examples"],
            "tokens": facts["tokens"],
            "learned_tokens": facts["learned_tokens"],
            "learned_share": facts["learned_tokens"] / facts["tokens"],
            "windows": facts["windows"],
            "window_length": facts["max_length"],
            "fill": facts["tokens"] / room,
            "dropped_as_too_long": facts["dropped"],
            "spelled_control_tokens": facts.get("spelled", 0),
            "validation_examples": facts["validation"]["examples"],
            "validation_tokens": facts["validation"]["tokens"],
            "lengths": dg.MetadataValue.md(length_picture("lengths", facts["length_histogram"], "tokens")),
            **estimate_metadata(estimate_training(store.artifacts, load_tenants(), dataset_key, recipe_key)),
            **common_metadata(artifact),
        },
    )
