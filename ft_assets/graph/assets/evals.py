"""The ``eval_report`` asset."""

import dagster as dg

from ft_assets.control import identity
from ft_assets.control.rejections.record import quarantine
from ft_assets.graph.actors import acting
from ft_assets.graph.glue import asked_gates, common_metadata, pair_of, run_work, tenants_of_run
from ft_assets.graph.partitions import GROUP, of_dataset, of_recipe, pair_partitions
from ft_assets.graph.rejections import show_rejection, shown_suggestions
from ft_assets.graph.report_links import report_link
from ft_assets.graph.told import told
from ft_assets.settings import tags
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.tenants import NO_TENANTS
from ft_assets.workers.evals.verdicts import judge_candidate, load_evidence, score_table, verdict_table
from ft_resources.dagster_resources import LauncherResource, StoreResource


@dg.asset(
    partitions_def=pair_partitions,
    deps=["checkpoint", of_dataset("dataset"), of_recipe("base_model"), of_recipe("baseline_report")],
    group_name=GROUP,
    kinds={"pytorch", "python"},
    owners=["team:ml-platform"],
    code_version=CODE_VERSIONS["eval_report"],
    tags={tags.WORKER: "gpu"},
)
@told
def eval_report(
    context: dg.AssetExecutionContext, store: StoreResource, launcher: LauncherResource
) -> dg.MaterializeResult:
    """Candidate against its base on general suites and the holdout: results per sample, intervals and verdicts."""
    dataset_key, recipe_key = pair_of(context.partition_key)
    request = identity.eval_report_request(
        store.artifacts, dataset_key, recipe_key, tenants_of_run(context) or NO_TENANTS
    )
    artifact = run_work(context, store, launcher, request)
    evidence = load_evidence(artifact)
    wanted = identity.adapter_request(store.artifacts, dataset_key, recipe_key, asked_gates(context, store))
    verdicts = judge_candidate(store.artifacts, wanted.inputs, wanted.params)
    rejected = quarantine(store.artifacts, wanted, verdicts, actor=acting(context, store.store))
    if rejected is not None:
        context.log_event(show_rejection(context, verdicts, rejected, artifact))
    return dg.MaterializeResult(
        data_version=dg.DataVersion(artifact.digest),
        metadata={
            "gates": dg.MetadataValue.md(verdict_table(verdicts)),
            "scores": dg.MetadataValue.md(score_table(evidence)),
            **shown_suggestions(rejected),
            "report": report_link(artifact),
            "holdout_rows": evidence.rows,
            **({"weights": evidence.chosen.in_words} if evidence.chosen else {}),
            "holdout_rows_too_long": evidence.too_long,
            "majority_rate": evidence.majority_rate,
            "never_seen_rate": evidence.never_seen_rate,
            **{f"candidate_{name}": metric.candidate for name, metric in evidence.holdout.items()},
            **common_metadata(artifact),
        },
    )
