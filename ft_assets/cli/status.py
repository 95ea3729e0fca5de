"""``ft status``: how submissions stand, from the store alone."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api
from ft_resources.progress_words import describe_progress, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ft_assets.api import ExportProgress, Status, TrialProgress, Wait

STYLES = {
    "accepted": "green",
    "rejected": "yellow",
    "ungated": "blue",
    "failed": "red",
    "cancelled": "dim",
    "preempted": "magenta",
    "stopped": "magenta",
    "paused": "magenta",
    "held": "magenta",
    "queued": "dim",
}


def status(
    submission: Annotated[str, typer.Argument(help="Id of a submission. Default: all submissions.")] = "",
    tenant: Annotated[str, typer.Option(help="Only this tenant.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the progress of submissions: state, step, loss, tokens per second, time left."""
    from rich.text import Text

    from ft_assets.cli.output import print_json, print_suggestions, print_table

    found = [api.status(submission)] if submission else api.list_submissions(tenant=tenant)
    trials = api.sweep_progress(submission) if submission else []
    exports = api.exports_of(submission) if submission else []
    if as_json:
        beside = {"trials": [asdict(each) for each in trials], "exports": [asdict(each) for each in exports]}
        print_json([asdict(item) | {name: each for name, each in beside.items() if each} for item in found])
        return
    print_table(
        ("submission", "state", "dataset", "recipe", "now", ""),
        [
            (
                item.submission,
                Text(item.state, style=STYLES.get(item.state, "cyan")),
                item.dataset,
                item.recipe,
                describe(item),
                "; ".join(
                    filter(None, (short(item.adapter) if item.adapter else "", remark(item, alone=bool(submission))))
                ),
            )
            for item in found
        ],
        empty="No submissions yet. Make one: ft run DATASET RECIPE",
    )
    if submission:
        for line in reasons(found[0])[1:]:
            print(line)
        if found[0].start:
            print(first_step(found[0].start))
        print_suggestions(found[0].suggestions)
    if trials:
        print()
        print_table(("trial", "values", "state", "step", "validation loss", ""), map(_trial_row, trials), empty="")
    if exports:
        print()
        print_table(("export", "state", "now", "is", ""), map(_export_row, exports), empty="")


def _trial_row(item: "TrialProgress") -> tuple[str, ...]:
    from ft_assets.settings.recipe.shown import shown_values

    step = f"{item.step}/{item.steps}" if item.steps else ""
    loss = "" if item.validation_loss is None else f"{item.validation_loss:.4f}"
    return (item.trial, shown_values(item.values), item.state, step, loss, "winner" if item.winner else "")


def _export_row(item: "ExportProgress") -> tuple[str, ...]:
    return (item.format, item.state, item.phase, short(item.address) if item.address else "", item.detail)


def reasons(item: "Status") -> list[str]:
    """Why a submission is in its state, then where, what to do, and what a failed worker said, one line each."""
    named = {"where": item.where, "what to do": item.remedy, "the worker said": item.words}
    return [item.detail, *(f"  {name}: {text}" for name, text in named.items() if text)]


def first_step(stages: "Sequence[Wait]") -> str:
    """What a first step waited for, such as ``first step after 2 min 5 s: queue 1 min 40 s, node 0 s, …``."""
    parts = [
        f"{each.name} {seconds(each.seconds)}" + ("" if each.fetched is None else f" ({each.fetched / 1e9:.1f} GB)")
        for each in stages
    ]
    return f"  first step after {seconds(sum(each.seconds for each in stages))}: {', '.join(parts)}"


def remark(item: "Status", *, alone: bool = False) -> str:
    """Remarks beside the numbers: why the submission is in its state, and alerts of a running training; what to do too
    in a list, as ``reasons`` say it of one ``alone``."""
    parts = [f"stopped early, after step {item.stopped_early}"] if item.stopped_early else []
    parts += [item.detail] if item.detail else []
    if item.remedy and not alone and item.state not in ("rejected", "ungated"):
        parts.append(f"what to do: {item.remedy}")
    parts += [f"alert: {alert}" for alert in item.alerts]
    return "; ".join([*(part.removesuffix(".") for part in parts[:-1]), *parts[-1:]])


def describe(item: "Status") -> str:
    """One line such as ``checkpoint: training 40/120, loss 1.230, 5,400 tokens/s, 12 s left``."""
    phase = f"{item.asset}: {item.phase}".rstrip(": ") if item.asset else ""
    return describe_progress({**asdict(item), "phase": phase, "done": item.step, "total": item.steps})
