"""``ft run`` and ``ft submit``: ask for an adapter, and wait for it or not."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.datasets import NAME_HELP, POLICY_HELP
from ft_assets.cli.door import api, waits_for
from ft_assets.cli.estimate import note_estimate
from ft_resources.errors import HeldForReview, SubmissionPaused, UserError

if TYPE_CHECKING:
    from ft_assets.api import Asked

EXIT_CODES = {"accepted": 0, "ungated": 0, "failed": 1, "rejected": 3, "cancelled": 130}
_EVALUATED = ("accepted", "ungated", "rejected")
HELD = 4
PAUSED = 5

Dataset = Annotated[
    str,
    typer.Argument(
        help="Dataset key; or, with --name or --base, a file of rows, a folder of files or hub:ORG/NAME@REVISION#SPLIT."
    ),
]
Recipe = Annotated[str, typer.Argument(help="Recipe key, or a recipe's YAML file; not with --base.")]
Base = Annotated[
    str,
    typer.Option(
        help="For a first try without a recipe: folder of a base model, or a base as in recipes. The method is "
        "chosen from the rows; the result is not gated."
    ),
]
Name = Annotated[str, typer.Option(help=f"For a file: {NAME_HELP}")]
Policy = Annotated[Path | None, typer.Option(help=f"For a file: {POLICY_HELP}")]
MaxGpuHours = Annotated[
    float | None,
    typer.Option(help="Maximum estimated GPU-hours; the training is refused above it. See ft estimate."),
]


Gates = Annotated[
    list[str] | None,
    typer.Option("--gate", help="Gate in addition to the recipe's, such as 'exact_match > 0.6'; repeatable."),
]
Key = Annotated[
    str,
    typer.Option(
        help="Idempotency key for scripts. The same key returns the same submission, even after its end; other "
        "arguments with the same key are an error."
    ),
]
Holdout = Annotated[
    list[Path] | None,
    typer.Option(help="For a file: file with your own holdout rows, part of the version; repeatable."),
]


def run(
    dataset: Dataset,
    recipe: Recipe = "",
    base: Base = "",
    name: Name = "",
    policy: Policy = None,
    max_gpu_hours: MaxGpuHours = None,
    gate: Gates = None,
    key: Key = "",
    holdout: Holdout = None,
) -> None:
    """Fine-tune and show the progress. Exit code: 0 accepted or ungated, 3 rejected by a gate, 1 failed, 2 invalid
    request, 4 held for review, 5 paused, 130 cancelled.
    """
    from ft_assets.cli.live import WatchedRun, print_outcome
    from ft_assets.cli.output import note, print_error
    from ft_assets.cli.samples import print_samples

    watched = WatchedRun()
    try:
        made = api.fine_tune(
            dataset,
            recipe,
            base=base,
            name=name,
            policy=policy,
            max_gpu_hours=max_gpu_hours,
            gates=gate or (),
            key=key,
            holdout=holdout or (),
            origin="cli",
            orchestrator=watched,
            on_asked=lambda asked: _tell(asked, max_gpu_hours, made=bool(base)),
        )
    except HeldForReview as error:
        print_error(error)
        if watched.submission:
            note(f"once it is approved, continue with: ft run {watched.submission.dataset} {watched.submission.recipe}")
        raise typer.Exit(HELD) from error
    except SubmissionPaused as error:
        # What a person wanted is no error.
        print(error.what)
        note(error.remedy)
        raise typer.Exit(PAUSED) from error
    print_outcome(None, made.submission, made.outcome)
    if made.outcome.status in _EVALUATED:
        try:
            print_samples(None, made.submission)
        except UserError as error:
            # How the work ended stands, whatever can be shown of it.
            note(f"no answers can be shown: {error.what}")
    raise typer.Exit(EXIT_CODES[made.outcome.status])


def submit(
    dataset: Dataset,
    recipe: Recipe = "",
    base: Base = "",
    name: Name = "",
    policy: Policy = None,
    max_gpu_hours: MaxGpuHours = None,
    gate: Gates = None,
    key: Key = "",
    holdout: Holdout = None,
) -> None:
    """Submit a pair and return immediately. The work is started by a running Dagster."""
    from ft_assets.cli.output import note

    asked = api.submit(
        dataset,
        recipe,
        base=base,
        name=name,
        policy=policy,
        max_gpu_hours=max_gpu_hours,
        gates=gate or (),
        key=key,
        holdout=holdout or (),
        origin="cli",
    )
    _tell(asked, max_gpu_hours, made=bool(base))
    submission = asked.submission
    print(submission.id)
    note(f"{submission.dataset} with {submission.recipe}; to follow it: ft status {submission.id}")
    if asked.created:
        note(waits_for())
    try:
        api.require_not_paused(submission)
    except SubmissionPaused as error:
        note(f"it is {error.what}. {error.remedy}")
        return
    if submission.driver == "caller":
        note("an ft run process is already working on it; if that process has ended, use ft run instead of ft submit")


def _tell(asked: "Asked", max_gpu_hours: float | None, *, made: bool) -> None:
    """Print the recipe that was ``made`` for a first try, the training's estimate and remarks on the submission."""
    from ft_assets.cli.output import note, note_walls, print_table, warn
    from ft_assets.settings.recipe.shown import shown_settings

    if made:
        key = asked.submission.recipe
        print_table(("setting", "value", "from"), shown_settings(*api.resolved_recipe(key)), empty="")
        note(f"recipe {key}; to change something: ft recipe show {key} --yaml > recipe.yaml")

    note_estimate(asked, max_gpu_hours)
    warn(asked.warnings)
    for warning in asked.submission.warnings:
        note(warning)
    note_walls(asked.walls)
    standing = asked.submission.max_gpu_hours
    if standing != max_gpu_hours:
        held = "no maximum" if standing is None else f"a maximum of {standing:g} GPU-hours"
        note(f"the pair was already submitted and is in progress, with {held}")
