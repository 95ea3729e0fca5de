"""Assets of a recipe's base model."""

import dagster as dg

from ft_assets.control import identity
from ft_assets.graph.glue import common_metadata, run_work
from ft_assets.graph.partitions import GROUP, recipe_partitions
from ft_assets.graph.told import told
from ft_assets.settings import tags
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_resources.dagster_resources import LauncherResource, StoreResource


@dg.asset(
    partitions_def=recipe_partitions,
    group_name=GROUP,
    kinds={"huggingface"},
    owners=["team:ml-platform"],
    code_version=CODE_VERSIONS["base_model"],
    tags={tags.WORKER: "cpu"},
)
@told
def base_model(
    context: dg.AssetExecutionContext, store: StoreResource, launcher: LauncherResource
) -> dg.MaterializeResult:
    """Weights, tokenizer and chat template of the recipe's base, mirrored byte for byte at the locked revision."""
    artifact = run_work(context, store, launcher, identity.base_model_request(store.artifacts, context.partition_key))
    facts = artifact.facts
    # A base that was mirrored before this was looked at has neither fact.
    if warning := facts.get("tokenizer_warning"):
        context.log.warning(warning)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(artifact.digest),
        metadata={
            **({"tokenizer_warning": dg.MetadataValue.md(f"⚠️ {warning}")} if warning else {}),
            "parameters": dg.MetadataValue.int(facts["parameters"]),
            "architecture": dg.MetadataValue.text(facts["architecture"]),
            "weights_and_tokenizer_bytes": dg.MetadataValue.int(facts["bytes"]),
            "source": dg.MetadataValue.text(facts["source"]),
            "revision": dg.MetadataValue.text(facts["revision"]),
            **({"new_tokens": dg.MetadataValue.int(facts["new_tokens"])} if "new_tokens" in facts else {}),
            "chat_template": dg.MetadataValue.bool(facts["chat_template"]),
            "tokenizer_digest": dg.MetadataValue.text(facts["tokenizer_digest"]),
            "tokenizer_as_transformers": dg.MetadataValue.text(
                {True: "yes", False: "no", None: "not compared"}[facts.get("tokenizer_as_transformers")]
            ),
            **common_metadata(artifact),
        },
    )


@dg.asset(
    partitions_def=recipe_partitions,
    deps=["base_model"],
    group_name=GROUP,
    kinds={"pytorch"},
    owners=["team:ml-platform"],
    code_version=CODE_VERSIONS["baseline_report"],
    tags={tags.WORKER: "gpu"},
)
@told
def baseline_report(
    context: dg.AssetExecutionContext, store: StoreResource, launcher: LauncherResource
) -> dg.MaterializeResult:
    """The base's own scores on the recipe's general suites; no adapter may be clearly worse."""
    artifact = run_work(
        context, store, launcher, identity.baseline_report_request(store.artifacts, context.partition_key)
    )
    lines = [
        f"| {suite} | {score['metric']} | {100 * score['value']:.1f} | {score['n']} |"
        for suite, score in sorted(artifact.facts["scores"].items())
    ]
    lines += [
        f"| {name.replace('_', '-')} | share | {100 * rate['value']:.1f} | {rate['n']} |"
        for name, rate in sorted(artifact.facts.get("safety", {}).items())
    ]
    table = "\n".join(["| suite | metric | score, % | items |", "|---|---|---:|---:|", *lines])
    return dg.MaterializeResult(
        data_version=dg.DataVersion(artifact.digest),
        metadata={
            "scores": dg.MetadataValue.md(table),
            **{
                f"score_{suite.replace('.', '_').replace('-', '_')}": dg.MetadataValue.float(score["value"])
                for suite, score in artifact.facts["scores"].items()
            },
            **common_metadata(artifact),
        },
    )
