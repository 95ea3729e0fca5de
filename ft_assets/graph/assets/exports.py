"""One asset for each kind of export, such as the quantised ones."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from ft_assets.control import identity
from ft_assets.control.exports.judging import judge_export, require_as_good
from ft_assets.graph.glue import asked_gates, common_metadata, pair_of, run_work, tenants_of_run
from ft_assets.graph.partitions import GROUP, of_dataset, of_recipe, pair_partitions
from ft_assets.graph.report_links import report_link
from ft_assets.graph.told import told
from ft_assets.settings import tags
from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports import EXPORTS, formats_of
from ft_assets.settings.tenants import NO_TENANTS
from ft_assets.settings.ungated import NOT_JUDGED, without_gates
from ft_assets.workers.evals.verdicts import load_evidence, score_table, verdict_table
from ft_resources.artifacts import Artifact
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import GateRejected


def export_asset(asset: str) -> dg.AssetsDefinition:
    """The asset of these formats. Only made when asked for: by a recipe's ``exports``, or by hand.

    An export that does not pass its gates again raises GateRejected, so that nothing stands on it.
    """
    formats = formats_of(asset)

    @dg.asset(
        name=asset,
        partitions_def=pair_partitions,
        deps=["adapter", of_recipe("base_model"), of_dataset("dataset")],
        description=" ".join(f"Export {each.name}: {each.what}." for each in formats)
        + " Compared with its adapter and gated again on the adapter's suites and holdout. Created if the "
        "recipe's exports include it.",
        group_name=GROUP,
        kinds={"huggingface"},
        owners=["team:ml-platform"],
        code_version=formats[0].code_version,
        tags={tags.WORKER: "gpu"},
        # Nothing is made where the recipe asks for other exports only.
        output_required=False,
    )
    @told
    def made(
        context: dg.AssetExecutionContext, store: StoreResource, launcher: LauncherResource
    ) -> Iterator[dg.MaterializeResult]:
        artifacts, pair = store.artifacts, pair_of(context.partition_key)
        adapter = identity.exported(artifacts, *pair, asked_gates(context, store))
        asked = identity.asked_formats(artifacts, pair[1], asset)
        exports, rejections, shown = list[Artifact](), list[GateRejected](), dict[str, Any]()
        for wanted in asked:
            try:
                export, found = _made(context, store, launcher, adapter, wanted)
            except GateRejected as error:
                rejections.append(error)
                continue
            exports.append(export)
            shown.update({f"{wanted.name} {name}" if len(asked) > 1 else name: each for name, each in found.items()})
        if rejections:
            # The others are made all the same, and are found by ft export.
            raise rejections[0]
        if exports:
            yield dg.MaterializeResult(
                data_version=dg.DataVersion("-".join(each.digest for each in exports)),
                metadata={"adapter": str(adapter.address), **shown},
            )

    return made


def _made(
    context: dg.AssetExecutionContext,
    store: StoreResource,
    launcher: LauncherResource,
    adapter: Artifact,
    wanted: ExportFormat,
) -> tuple[Artifact, dict[str, Any]]:
    """The export in a format, and its metadata. Raises GateRejected for one that is not as good as the adapter."""
    artifacts = store.artifacts
    for step in wanted.steps:
        export = run_work(context, store, launcher, identity.export_request(artifacts, adapter, step))
    shown: dict[str, Any] = {"verdict": f"ungated: {NOT_JUDGED}"}
    if not without_gates(adapter.manifest.identity["params"]):
        request = identity.reevaluation_request(artifacts, adapter, export, tenants_of_run(context) or NO_TENANTS)
        report = run_work(context, store, launcher, request)
        verdicts = judge_export(artifacts, adapter, export, report)
        require_as_good(verdicts, str(export.address))
        shown = {
            "verdict": "all gates passed again, as good as the adapter",
            "gates": dg.MetadataValue.md(verdict_table(verdicts)),
            "scores": dg.MetadataValue.md(score_table(load_evidence(report))),
            "report": report_link(report),
        }
    return export, {**shown, **_measured(export), **common_metadata(export)}


def _measured(export: Artifact) -> dict[str, Any]:
    """How far it is from what it was made of, as its worker measured it."""
    if distance := export.facts.get("equality"):
        return {
            "logits_differ_rms": distance["merged"]["rms"],
            "rounding_explains_rms": distance["rounding"]["rms"],
        }
    lost = export.facts["changed"]
    return {"quantising_kl": lost["kl"], "same_first_choice": lost["argmax"]}


export_assets = [export_asset(each) for each in dict.fromkeys(each.asset for each in EXPORTS.values())]
