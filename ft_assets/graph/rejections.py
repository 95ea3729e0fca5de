"""Rejections and their suggestions as Dagster shows them."""

import dagster as dg

from ft_assets.control.rejections.record import RejectionRecord
from ft_assets.graph.report_links import report_link
from ft_assets.settings import tags
from ft_assets.workers.adapters.rejection import headline
from ft_assets.workers.evals.verdict import Verdict
from ft_assets.workers.evals.verdicts import verdict_table
from ft_resources.artifacts import Artifact


def show_rejection(
    context: dg.AssetExecutionContext, verdicts: list[Verdict], record: RejectionRecord, report: Artifact
) -> dg.AssetObservation:
    """Tag and warn the run, which is about to end with the rejection. Returns what the adapter's partition shows of
    it."""
    reason = headline(verdicts)
    first = f" Try first: {record.suggestions[0]}" if record.suggestions else ""
    context.log.warning(f"{context.partition_key} was {reason}: no adapter is created; the candidate is kept.{first}")
    context.instance.add_run_tags(context.run_id, {tags.VERDICT: "rejected"})
    return dg.AssetObservation(
        asset_key="adapter",
        partition=context.partition_key,
        description=reason,
        metadata={
            "verdict": reason,
            "gates": dg.MetadataValue.md(verdict_table(verdicts)),
            **shown_suggestions(record),
            "report": report_link(report),
        },
    )


def shown_suggestions(record: RejectionRecord | None) -> dict[str, dg.MetadataValue]:
    """What to try after a rejection, as a list; empty if the candidate was not rejected."""
    if record is None or not record.suggestions:
        return {}
    return {"suggestions": dg.MetadataValue.md("\n".join(f"- {sentence}" for sentence in record.suggestions))}
