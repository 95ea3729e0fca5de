"""``ft gate``: what the gates say of a candidate, and who lets an undecided one through."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.environment import actor, open_store

if TYPE_CHECKING:
    from rich.table import Table

    from ft_assets.evals.verdict import Verdict

app = typer.Typer(no_args_is_help=True, help="The gates between a trained candidate and an adapter.")
Dataset = Annotated[str, typer.Argument(help="Dataset key, such as acme.support.v1.")]
Recipe = Annotated[str, typer.Argument(help="Recipe key, such as docs-qa.v1.")]
Gates = Annotated[
    list[str] | None,
    typer.Option("--gate", help="What the submission asks for beyond the recipe's gates, as it was given; repeatable."),
]


@app.command()
def show(
    dataset: Dataset,
    recipe: Recipe,
    asked: Gates = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Every gate's verdict on a pair, judged now from its per-sample results, and what to try where one says no.

    Exit code: 0 where all let it through, 3 where one does not.
    """
    from rich.console import Console

    from ft_assets import identity
    from ft_assets.cli.output import print_json, print_suggestions
    from ft_assets.evals.gates import passed
    from ft_assets.evals.judging import judge_candidate
    from ft_assets.rejections.candidate import suggestions_for
    from ft_assets.rejections.record import sentences
    from ft_resources.artifacts import Artifacts

    artifacts = Artifacts(open_store())
    request = identity.adapter_request(artifacts, dataset, recipe, asked or ())
    verdicts = judge_candidate(artifacts, request.inputs, request.params)
    if as_json:
        print_json([verdict.model_dump(mode="json") for verdict in verdicts])
    else:
        console = Console(highlight=False, soft_wrap=True)
        console.print(_verdicts(verdicts))
        console.print(_figures(verdicts))
        if not passed(verdicts):
            print_suggestions(sentences(suggestions_for(artifacts, request, verdicts)))
    raise typer.Exit(0 if passed(verdicts) else 3)


@app.command()
def waive(
    dataset: Dataset,
    recipe: Recipe,
    gate: Annotated[str, typer.Argument(help="task_gain or judge; the others are never waived.")],
    note: Annotated[str, typer.Option(help="Why the candidate may be used all the same; it is recorded.")],
    asked: Gates = None,
) -> None:
    """Let a candidate through whose own data is too small to tell. The record names you and stays.

    Only an inconclusive verdict can be waived, never a failed one.
    """
    from ft_assets import identity
    from ft_assets.cli.output import note as remark
    from ft_assets.evals.judging import waive_candidate
    from ft_resources.artifacts import Artifacts

    artifacts, me = Artifacts(open_store()), actor()
    request = identity.adapter_request(artifacts, dataset, recipe, asked or ())
    record = waive_candidate(artifacts, request.inputs, request.params, gate, actor=me, note=note)
    print(f"{gate} of {dataset}|{recipe}: {record.reason}")
    if (record.actor, record.note) == (me, note.strip()):
        also = "".join(f" --gate {shlex.quote(wish)}" for wish in asked or ())
        remark(f"waived; make the adapter with: ft run {dataset} {recipe}{also}")
    else:
        remark(f"waived already by {record.actor} at {record.at}: {record.note}")


def _verdicts(verdicts: "list[Verdict]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    styles = {"pass": "green", "fail": "red", "inconclusive": "yellow", "not required": "dim"}
    table = Table("gate", "verdict", "why", box=None, pad_edge=False)
    for verdict in verdicts:
        words = verdict.reason
        if verdict.waiver:
            words += f"; waived by {verdict.waiver.actor} at {verdict.waiver.at}: {verdict.waiver.note}"
        table.add_row(verdict.gate, Text(verdict.outcome, styles[verdict.outcome]), Text(words))
    return table


def _figures(verdicts: "list[Verdict]") -> "Table":
    """Interval, number of samples and what they could have shown, of everything that was judged."""
    from rich.table import Table

    table = Table("judged", "samples", "95 % interval", "would show 8 times of 10", box=None, pad_edge=False)
    for verdict in verdicts:
        for name, figures in verdict.numbers.items():
            unit = " points" if "drop_points" in figures else ""
            between = f"{figures['interval_low']:.3g} to {figures['interval_high']:.3g}{unit}"
            table.add_row(
                f"{verdict.gate}: {name}", f"{figures['n']:,}", between, f"±{figures['minimum_detectable']:.2g}{unit}"
            )
    return table
