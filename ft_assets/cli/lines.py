"""Where the adapters of a line stand: ``ft promote``, ``approve``, ``decline``, ``rollback``, ``lines``, ``line`` and
``release``."""

from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api

if TYPE_CHECKING:
    from ft_assets.api import LineState, Pointer, PromotionRecord

Reason = Annotated[str, typer.Option(help="Reason (recorded with your name).")]
Line = Annotated[str, typer.Argument(help="Line: tenant.dataset.recipe, without versions.")]


def promote(
    target: Annotated[str, typer.Argument(help="Line, pair DATASET|RECIPE, or address of an adapter.")],
    to: Annotated[str, typer.Option(help="Target stage: dev, staging, production, deprecated or archived.")],
    reason: Reason,
    waive_incumbent: Annotated[
        bool, typer.Option(help="Waive an inconclusive comparison with the adapter in production.")
    ] = False,
) -> None:
    """Promote an adapter of a line to a stage, if all checks pass. The promotion is recorded permanently, with your
    name.
    """
    from ft_assets.cli.output import note

    try:
        record, created = api.promote(target, to, reason=reason, waive_incumbent=waive_incumbent)
    except api.WaitsForSecondPerson as waits:
        print(f"{waits.proposal.line} proposal {waits.proposal.id}")
        note(f"waiting: {waits.what}\n{waits.remedy}")
        return
    _tell(record)
    if not created:
        note(f"already in this stage, by {record.actor} at {record.at}")


def approve(
    line: Line,
    note: Annotated[str, typer.Option(help="Reason for the approval (recorded with your name).")],
    proposal: Annotated[str, typer.Option(help="Id of the proposal, if several are pending.")] = "",
) -> None:
    """Approve a promotion to production proposed by another person. All checks run again."""
    _tell(api.approve_promotion(line, note=note, proposal=proposal))


def decline(
    line: Line,
    reason: Reason,
    proposal: Annotated[str, typer.Option(help="Id of the proposal, if several are pending.")] = "",
) -> None:
    """Decline a proposed promotion to production, or withdraw your own."""
    ended = api.decline_promotion(line, reason=reason, proposal=proposal)
    print(f"{ended.proposal.line} proposal {ended.proposal.id} {ended.state}")


def rollback(
    line: Line,
    reason: Reason,
    stage: Annotated[str, typer.Option(help="Stage: dev, staging or production.")] = "production",
    to: Annotated[
        str, typer.Option(help="Address of an adapter that was in the stage before. Default: the previous one.")
    ] = "",
) -> None:
    """Roll a stage of a line back to an earlier adapter."""
    _tell(api.roll_back(line, reason=reason, stage=stage, to=to))


def lines(tenant: Annotated[str, typer.Option(help="Only this tenant.")] = "") -> None:
    """List the lines with recorded decisions, and the adapter in each stage."""
    from ft_assets.cli.output import print_table

    rows = [
        (name, *(_shown(state, stage) for stage in api.POINTERS), str(len(state.records)))
        for name, state in api.list_lines(tenant=tenant)
    ]
    print_table(
        ("line", *api.POINTERS, "decisions"), rows, empty="No line yet: ft promote LINE --to staging --reason …"
    )


def line(name: Line, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the history of a line: all promotions and rollbacks, with actor, time and reason."""
    from ft_assets.cli.output import note, print_json, print_table

    state = api.show_line(name)
    if as_json:
        standing = {stage: found.adapter.address if (found := state.at(stage)) else None for stage in api.POINTERS}
        print_json({"line": name, **standing, "records": [r.model_dump(mode="json") for r in state.records]})
        return
    print_table(
        ("seq", "at", "what", "adapter", "by", "why"),
        [
            (
                str(record.seq),
                record.at[:19],
                f"{'rolled back ' if record.kind == 'rollback' else ''}to {record.stage}"
                + (f" (waived: {', '.join(record.waived)})" if record.waived else ""),
                short(record.adapter.address),
                record.actor + (f" (proposed by {record.proposed_by})" if record.proposed_by else ""),
                record.reason,
            )
            for record in state.records
        ],
        empty=f"No decision is recorded for {name} yet.",
    )
    for stage in api.POINTERS:
        note(f"{stage}: {_shown(state, stage)}")
    for each in api.list_proposals(name):
        if each.state == "open":
            asked = each.proposal
            note(f"pending approval: {asked.id}, {asked.adapter.address} by {asked.actor} ({asked.reason})")


def release(
    recipe: Annotated[str, typer.Argument(help="Key of the successor recipe, which has the new base.")], reason: Reason
) -> None:
    """Release the held base of a successor recipe, so that adapters on it may be promoted to production."""
    record = api.release_base(recipe, reason=reason)
    print(f"{record.recipe} released by {record.actor} at {record.at}: {record.reason}")


def _shown(state: "LineState", stage: "Pointer") -> str:
    found = state.at(stage)
    return short(found.adapter.address) if found else "–"


def _tell(record: "PromotionRecord") -> None:
    from ft_assets.cli.output import note

    print(f"{record.line} {record.stage} {record.adapter.address}")
    note(f"record {record.path}; instead of {record.replaces or 'nothing'}")
    for finding in record.findings:
        note(f"- {finding}")
