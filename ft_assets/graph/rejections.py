"""Rejections and their suggestions as Dagster shows them."""

import dagster as dg

from ft_assets.control.rejections.record import RejectionRecord
from ft_assets.graph.report_links import report_link
from ft_assets.records.submissions import NOT_PROVED
from ft_assets.settings import tags
from ft_assets.workers.evals.verdict import Verdict
from ft_assets.workers.evals.verdicts import verdict_table
from ft_resources.artifacts import Artifact


def show_rejection(
    context: dg.AssetExecutionContext, verdicts: list[Verdict], record: RejectionRecord | None, report: Artifact
) -> None:
    """Show on the adapter's partition why there is none: a rejection is a result, so no step fails for it."""
    blocking = [verdict for verdict in verdicts if not verdict.lets_through]
    failed = any(verdict.outcome == "fail" for verdict in blocking)
    reason = f"{'rejected' if failed else NOT_PROVED} by {', '.join(verdict.gate for verdict in blocking)}"
    first = f" Try first: {record.suggestions[0]}" if record and record.suggestions else ""
    context.log.warning(f"{context.partition_key} was {reason}: no adapter is created; the candidate is kept.{first}")
    if "dagster/backfill" in context.run.tags:
        context.log.warning(
            "Dagster will show the backfill as failed because this pair has no adapter; none of its runs failed."
        )
    context.instance.add_run_tags(context.run_id, {tags.VERDICT: "rejected"})
    context.log_event(
        dg.AssetObservation(
            asset_key=context.asset_key,
            partition=context.partition_key,
            description=reason,
            metadata={
                "verdict": reason,
                "gates": dg.MetadataValue.md(verdict_table(verdicts)),
                **shown_suggestions(record),
                "report": report_link(report),
            },
        )
    )


def shown_suggestions(record: RejectionRecord | None) -> dict[str, dg.MetadataValue]:
    """What to try after a rejection, as a list; empty if the candidate was not rejected."""
    if record is None or not record.suggestions:
        return {}
    return {"suggestions": dg.MetadataValue.md("\n".join(f"- {sentence}" for sentence in record.suggestions))}
