"""The ``adapter`` asset."""

from collections.abc import Iterator

import dagster as dg

from ft_assets.control import identity
from ft_assets.control.lines.auto import promote_by_margin
from ft_assets.control.lines.mlflow_registry import register_new_adapter
from ft_assets.control.rejections.record import quarantine
from ft_assets.graph.actors import acting
from ft_assets.graph.checks.rollouts import LIVE_OUTCOMES_SPEC, outcomes_result, without_adapter
from ft_assets.graph.checks.serving import SERVE_PARITY_SPEC, parity_result
from ft_assets.graph.glue import asked_gates, common_metadata, pair_of, run_work
from ft_assets.graph.partitions import GROUP, of_recipe, pair_partitions
from ft_assets.graph.rejections import show_rejection
from ft_assets.graph.report_links import report_link
from ft_assets.graph.told import told
from ft_assets.settings import tags
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.ungated import NOT_JUDGED, without_gates
from ft_assets.workers.adapters.lineage import Lineage, lineage
from ft_assets.workers.adapters.rejection import rejected
from ft_assets.workers.evals.verdicts import judge_candidate, load_evidence, score_table, verdict_table
from ft_resources.artifacts import Address
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.tracking import default_uri


@dg.asset(
    partitions_def=pair_partitions,
    deps=["checkpoint", "eval_report", of_recipe("base_model")],
    group_name=GROUP,
    kinds={"huggingface"},
    owners=["team:ml-platform"],
    code_version=CODE_VERSIONS["adapter"],
    tags={tags.WORKER: "cpu"},
    check_specs=[SERVE_PARITY_SPEC, LIVE_OUTCOMES_SPEC],
)
@told
def adapter(
    context: dg.AssetExecutionContext, store: StoreResource, launcher: LauncherResource
) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult | dg.AssetObservation]:
    """Accepted, immutable adapter with its tokenizer, template, card and lineage; its candidate passed every gate.
    For a recipe without gates, the ungated result, marked as such."""
    request = identity.adapter_request(store.artifacts, *pair_of(context.partition_key), asked_gates(context, store))
    verdicts = judge_candidate(store.artifacts, request.inputs, request.params)
    ungated = without_gates(request.params)
    report = store.artifacts.get(Address.parse(request.inputs["eval_report"].address))
    if record := quarantine(store.artifacts, request, verdicts, actor=acting(context, store.store)):
        # Yielded: what a step that fails has logged, Dagster drops.
        yield show_rejection(context, verdicts, record, report)
        yield from without_adapter()
        raise rejected(verdicts, context.partition_key)
    # The worker judges again, from bytes that it verifies itself.
    known = store.artifacts.find(request.address) is not None
    artifact = run_work(context, store, launcher, request)
    if not known:
        register_new_adapter(default_uri(), context.log, store.artifacts, artifact)
    if not ungated:
        promote_by_margin(store.artifacts, artifact, context.log)
    context.instance.add_run_tags(context.run_id, {tags.VERDICT: "ungated" if ungated else "accepted"})
    yield dg.MaterializeResult(
        data_version=dg.DataVersion(artifact.digest),
        metadata={
            "verdict": f"ungated: {NOT_JUDGED}" if ungated else "accepted",
            "gates": dg.MetadataValue.md(verdict_table(verdicts)),
            "scores": dg.MetadataValue.md(score_table(load_evidence(report))),
            "report": report_link(report),
            "line": artifact.facts["line"],
            "lineage": dg.MetadataValue.md(lineage_list(lineage(store.artifacts, artifact.address))),
            **common_metadata(artifact),
        },
    )
    yield parity_result(store.artifacts, artifact)
    yield outcomes_result(store.artifacts, artifact)


def lineage_list(tree: Lineage) -> str:
    """The tree as a nested Markdown list; a node listed before is not expanded again."""
    lines: list[str] = []
    seen: set[str] = set()
    for depth, name, node in tree.walk():
        again = node.address in seen
        seen.add(node.address)
        label = f"{name}: " if name else ""
        if not (again and depth > 1):
            lines.append(f"{'  ' * depth}- {label}`{node.address}` ({node.digest[:12]})")
    return "\n".join(lines)
