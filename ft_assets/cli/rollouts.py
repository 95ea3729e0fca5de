"""``ft rollout``: give a candidate a growing share of a line's traffic, look at it, and end it."""

from typing import Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api
from ft_resources.errors import UserError

Line = Annotated[str, typer.Argument(help="tenant.dataset.recipe, without versions.")]
Reason = Annotated[str, typer.Option(help="Why; it is recorded with your name.")]

app = typer.Typer(no_args_is_help=True, help="Give a candidate a growing share of a line's traffic, by evidence.")


@app.command()
def start(
    line: Line,
    reason: Reason,
    candidate: Annotated[str, typer.Option(help="Address of an adapter. Default: the one in staging.")] = "",
    steps: Annotated[str, typer.Option(help="Percentages of the traffic; 100 is production.")] = "1,5,25,100",
    minimum: Annotated[int, typer.Option(help="Outcomes of the candidate of each kind, at each step.")] = 200,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            help="A kind that counts: thumbs, judge, latency, refusal or format. Default: thumbs and latency."
        ),
    ] = None,
    margin: Annotated[
        list[str] | None,
        typer.Option(help="KIND=SHARE: the loss of good outcomes that is a regression. Default: 0.05."),
    ] = None,
    latency_limit: Annotated[
        float | None,
        typer.Option(help="Seconds within which an answer is good. Default: nine of ten of the last day's."),
    ] = None,
    shadow: Annotated[
        int,
        typer.Option(help="Percentage of the requests to copy to the candidate first; its answers are sent to nobody."),
    ] = 0,
    waive_incumbent: Annotated[
        bool, typer.Option(help="Waive an inconclusive comparison with the adapter in production.")
    ] = False,
) -> None:
    """Start a rollout. Outcomes decide about its steps: a candidate that is shown to be worse is taken back at once."""
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
    note(f"see how it goes: ft rollout status {record.line}")


@app.command()
def status(line: Line, as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False) -> None:
    """Show a line's last rollout: its steps, what outcomes say, and what it waits for."""
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
        empty=f"{line} had no rollout yet.",
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
        note(f"{found.shadow} % of the requests are copied to the candidate; its answers are sent to nobody")


@app.command()
def cancel(line: Line, reason: Reason) -> None:
    """End a line's open rollout. Production has all traffic again."""
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
