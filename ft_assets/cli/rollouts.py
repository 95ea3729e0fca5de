"""``ft rollout``: give a candidate a growing share of a line's traffic, look at it, and end it."""

from typing import Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api
from ft_resources.errors import UserError

Line = Annotated[str, typer.Argument(help="Line: tenant.dataset.recipe, without versions.")]
Reason = Annotated[str, typer.Option(help="Reason (recorded with your name).")]

app = typer.Typer(no_args_is_help=True, help="Gradual rollouts of a candidate to a line's traffic.")


@app.command()
def start(
    line: Line,
    reason: Reason,
    candidate: Annotated[str, typer.Option(help="Address of the candidate. Default: the adapter in staging.")] = "",
    steps: Annotated[str, typer.Option(help="Traffic percentages of the steps; 100 is production.")] = "1,5,25,100",
    minimum: Annotated[
        int, typer.Option(help="Minimum number of the candidate's outcomes of each kind, per step.")
    ] = 200,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            help="Kind of outcome that decides: thumbs, judge, latency, refusal or format; repeatable. Default: "
            "thumbs and latency."
        ),
    ] = None,
    margin: Annotated[
        list[str] | None,
        typer.Option(help="KIND=SHARE: loss of good outcomes that counts as a regression. Default: 0.05."),
    ] = None,
    latency_limit: Annotated[
        float | None,
        typer.Option(help="Latency limit of a good answer, in seconds. Default: the 90th percentile of the last day."),
    ] = None,
    shadow: Annotated[
        int,
        typer.Option(
            help="Percentage of requests to copy to the candidate first (shadow stage); its answers are discarded."
        ),
    ] = 0,
    waive_incumbent: Annotated[
        bool, typer.Option(help="Waive an inconclusive comparison with the adapter in production.")
    ] = False,
) -> None:
    """Start a rollout. Each step is decided by outcomes; a candidate that is significantly worse is rolled back
    immediately.
    """
    from ft_assets.cli.output import note

    record = api.start_rollout(
        line,
        reason=reason,
        candidate=candidate,
        steps=_steps(steps),
        minimum=minimum,
        outcomes=outcome or api.OUTCOMES,
        margins=dict(_margin(each) for each in margin or ()),
        latency_limit_s=latency_limit,
        shadow=shadow,
        waive_incumbent=waive_incumbent,
    )
    share = record.share.replace(" %", "%")
    print(f"{record.line} rollout {record.rollout} {record.candidate.address} {share}")
    for finding in record.findings:
        note(f"- {finding}")
    note(f"to follow it: ft rollout status {record.line}")


@app.command()
def status(line: Line, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show a line's last rollout: its steps, its outcomes, and the next decision."""
    from ft_assets.cli.output import note, print_json, print_table

    found = api.show_rollout(line)
    last = found.state.rollouts[-1].records if found.state.rollouts else ()
    if as_json:
        evidence = [each.model_dump(mode="json") for each in found.evidence]
        records = [record.model_dump(mode="json") for record in last]
        print_json(
            {
                "line": line,
                "weights": dict(found.weights),
                "shadow": found.shadow,
                "judged": found.judged.model_dump(mode="json") if found.judged else None,
                "next": found.next,
                "evidence": evidence,
                "records": records,
            }
        )
        return
    print_table(
        ("at", "what", "candidate", "by", "why"),
        [
            (
                record.at[:19],
                f"{record.kind.replace('_', ' ')}, {record.share}",
                short(record.candidate.address),
                record.actor,
                record.reason,
            )
            for record in last
        ],
        empty=f"{line} has had no rollout yet.",
    )
    for each in found.evidence:
        note(each.sentence)
    if found.judged:
        note(found.judged.sentence)
    if found.next:
        note(found.next)
    for address, weight in found.weights:
        note(f"{weight} %: {short(address)}")
    if found.shadow:
        note(f"{found.shadow} % of the requests are copied to the candidate; its answers are discarded")


@app.command()
def cancel(line: Line, reason: Reason) -> None:
    """Cancel a line's open rollout. Production receives all traffic again."""
    record = api.cancel_rollout(line, reason=reason)
    print(f"{record.line} rollout {record.rollout} cancelled")


def _steps(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError as error:
        raise UserError(
            f"{text!r} is not a list of percentages", where="--steps", remedy="Write them as 1,5,25,100."
        ) from error


def _margin(text: str) -> tuple[str, float]:
    kind, _, share = text.partition("=")
    try:
        return kind, float(share)
    except ValueError as error:
        raise UserError(f"{text!r} is not a margin", where="--margin", remedy="Write it as thumbs=0.03.") from error
