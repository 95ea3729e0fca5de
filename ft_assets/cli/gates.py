"""``ft gate``: what the gates say of a candidate, and who lets an undecided one through."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.door import actor, api
from ft_assets.settings.ungated import NOT_JUDGED

if TYPE_CHECKING:
    from rich.table import Table

    from ft_assets.api import Verdict

app = typer.Typer(no_args_is_help=True, help="Gates that a candidate must pass to become an adapter.")
Dataset = Annotated[str, typer.Argument(help="Dataset key, such as acme.support.v1.")]
Recipe = Annotated[str, typer.Argument(help="Recipe key, such as docs-qa.v1.")]
Gates = Annotated[
    list[str] | None,
    typer.Option("--gate", help="Gate that the submission added to the recipe's gates, as given there; repeatable."),
]


@app.command()
def show(
    dataset: Dataset,
    recipe: Recipe,
    asked: Gates = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show all verdicts on a pair, recomputed from its per-sample results, with suggestions after a failure. Exit
    code: 0 if all gates pass or are waived, 3 if not or if the recipe has no gates.
    """
    from rich.console import Console

    from ft_assets.cli.output import print_json, print_suggestions

    found = api.show_gates(dataset, recipe, gates=asked or ())
    if as_json:
        print_json([verdict.model_dump(mode="json") for verdict in found.verdicts])
    else:
        console = Console(highlight=False, soft_wrap=True)
        console.print(_verdicts(found.verdicts))
        console.print(_figures(found.verdicts))
        if found.ungated:
            console.print(f"ungated: {NOT_JUDGED}")
        print_suggestions(found.suggestions)
    raise typer.Exit(0 if found.passed else 3)


@app.command()
def waive(
    dataset: Dataset,
    recipe: Recipe,
    gate: Annotated[str, typer.Argument(help="task_gain or judge; other gates cannot be waived.")],
    note: Annotated[str, typer.Option(help="Reason why the candidate may be used anyway (recorded).")],
    asked: Gates = None,
) -> None:
    """Waive an inconclusive verdict on a candidate. The waiver is recorded permanently, with your name. A failed
    verdict cannot be waived.
    """
    from ft_assets.cli.output import note as remark

    me = actor()
    record = api.waive_gate(dataset, recipe, gate, note=note, gates=asked or (), actor=me)
    print(f"{gate} of {dataset}|{recipe}: {record.reason}")
    if (record.actor, record.note) == (me, note.strip()):
        also = "".join(f" --gate {shlex.quote(wish)}" for wish in asked or ())
        remark(f"waived; to create the adapter: ft run {dataset} {recipe}{also}")
    else:
        remark(f"already waived by {record.actor} at {record.at}: {record.note}")


def _verdicts(verdicts: "Sequence[Verdict]") -> "Table":
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


def _figures(verdicts: "Sequence[Verdict]") -> "Table":
    """Interval, number of samples and smallest detectable difference of each measurement."""
    from rich.table import Table

    table = Table("judged", "samples", "95% confidence interval", "detectable with 80% power", box=None, pad_edge=False)
    for verdict in verdicts:
        for name, figures in verdict.numbers.items():
            unit = " points" if "drop_points" in figures else ""
            between = f"{figures['interval_low']:.3g} to {figures['interval_high']:.3g}{unit}"
            table.add_row(
                f"{verdict.gate}: {name}", f"{figures['n']:,}", between, f"±{figures['minimum_detectable']:.2g}{unit}"
            )
    return table
