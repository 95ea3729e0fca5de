"""One asset for each export format."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from ft_assets.control import identity
from ft_assets.control.exports.judging import judge_export, require_as_good
from ft_assets.graph.glue import asked_gates, common_metadata, pair_of, run_work, tenants_of_run
from ft_assets.graph.partitions import GROUP, pair_partitions, upstream
from ft_assets.graph.report_links import report_link
from ft_assets.graph.told import told
from ft_assets.settings import tags
from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.settings.tenants import NO_TENANTS
from ft_assets.settings.ungated import NOT_JUDGED, without_gates
from ft_assets.workers.evals.verdicts import load_evidence, score_table, verdict_table
from ft_resources.dagster_resources import LauncherResource, StoreResource


def export_asset(wanted: ExportFormat) -> dg.AssetsDefinition:
    """The asset of a format. Only made when asked for: by a recipe's ``exports``, or by hand.

    An export that does not pass its gates again raises GateRejected, so that nothing stands on it.
    """

    @dg.asset(
        name=wanted.asset,
        partitions_def=pair_partitions,
        deps=["adapter", upstream("base_model"), upstream("dataset")],
        description=f"Export {wanted.name}: {wanted.what}. Proved equal to base and adapter by its logits, and gated "
        "again on the adapter's own suites and holdout. Made when a recipe's exports ask for it.",
        group_name=GROUP,
        kinds={"huggingface"},
        owners=["team:ml-platform"],
        code_version=wanted.code_version,
        tags={tags.WORKER: "gpu"},
    )
    @told
    def made(
        context: dg.AssetExecutionContext, store: StoreResource, launcher: LauncherResource
    ) -> Iterator[dg.MaterializeResult]:
        artifacts, pair = store.artifacts, pair_of(context.partition_key)
        adapter = identity.exported(artifacts, *pair, asked_gates(context, store))
        export = run_work(context, store, launcher, identity.export_request(artifacts, adapter, wanted))
        shown: dict[str, Any] = {"verdict": f"ungated: {NOT_JUDGED}"}
        if not without_gates(adapter.manifest.identity["params"]):
            request = identity.reevaluation_request(artifacts, adapter, export, tenants_of_run(context) or NO_TENANTS)
            report = run_work(context, store, launcher, request)
            verdicts = judge_export(artifacts, adapter, export, report)
            require_as_good(verdicts, str(export.address))
            shown = {
                "verdict": "gated again, and as good as the adapter",
                "gates": dg.MetadataValue.md(verdict_table(verdicts)),
                "scores": dg.MetadataValue.md(score_table(load_evidence(report))),
                "report": report_link(report),
            }
        distance = export.facts["equality"]
        yield dg.MaterializeResult(
            data_version=dg.DataVersion(export.digest),
            metadata={
                **shown,
                "adapter": str(adapter.address),
                "logits_differ_rms": distance["merged"]["rms"],
                "rounding_explains_rms": distance["rounding"]["rms"],
                **common_metadata(export),
            },
        )

    return made


export_assets = [export_asset(each) for each in EXPORTS.values()]
