"""``ft run`` and ``ft submit``: ask for an adapter, and wait for it or not."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.datasets import NAME_HELP, POLICY_HELP, add_version
from ft_assets.cli.environment import actor, open_instance, open_store

if TYPE_CHECKING:
    from ft_assets.submissions.record import Submission, SubmissionOutcome
    from ft_resources.store import Store

EXIT_CODES = {"accepted": 0, "failed": 1, "rejected": 3, "cancelled": 130}
HELD = 4

Dataset = Annotated[
    str,
    typer.Argument(help="Dataset key, or a JSON lines file or hub:ORG/NAME@REVISION#SPLIT (then --name is needed)."),
]
Recipe = Annotated[str, typer.Argument(help="Recipe key, or a recipe's YAML file.")]
Name = Annotated[str, typer.Option(help=f"For a file: {NAME_HELP}")]
Policy = Annotated[Path | None, typer.Option(help=f"For a file: {POLICY_HELP}")]
MaxGpuHours = Annotated[
    float | None,
    typer.Option(help="Refuse the training where it is expected to take more; see them with: ft estimate."),
]


Gates = Annotated[
    list[str] | None,
    typer.Option("--gate", help="Ask for more than the recipe's gates, such as 'exact_match > 0.6'; repeatable."),
]
Key = Annotated[
    str,
    typer.Option(
        help="Asking again with the same key is the same submission, also once it has ended, and an error if it asks "
        "for something else; for scripts."
    ),
]
Holdout = Annotated[
    list[Path] | None,
    typer.Option(help="For a file: rows of your own to measure on, part of the version; may be given several times."),
]


def run(
    dataset: Dataset,
    recipe: Recipe,
    name: Name = "",
    policy: Policy = None,
    max_gpu_hours: MaxGpuHours = None,
    gate: Gates = None,
    key: Key = "",
    holdout: Holdout = None,
) -> None:
    """Fine-tune and watch.

    Exit code: 0 accepted, 3 rejected by a gate, 1 failed, 2 a mistake, 4 held for review, 130 cancelled.
    """
    from ft_assets.cli.live import LiveView, print_outcome
    from ft_assets.cli.output import note, print_error
    from ft_assets.submissions.record import SubmissionStatus, find_outcome, finish
    from ft_assets.submissions.run import drive
    from ft_resources.errors import HeldForReview

    store = open_store()
    submission = ask(
        store,
        dataset,
        recipe,
        name,
        policy,
        driver="caller",
        max_gpu_hours=max_gpu_hours,
        gates=gate or (),
        holdout=holdout or (),
        key=key,
    )
    instance = open_instance()
    try:
        with LiveView(store, submission):
            outcome: SubmissionOutcome | None = drive(store, instance, submission)
    except HeldForReview as error:
        print_error(error)
        note(f"once it is approved, go on with: ft run {submission.dataset} {submission.recipe}")
        raise typer.Exit(HELD) from error
    except KeyboardInterrupt:
        # The interrupted op has stopped its worker.
        outcome = find_outcome(store, submission) or finish(
            store, submission, SubmissionStatus.CANCELLED, reason=f"interrupted by {actor()}"
        )
    assert outcome is not None
    print_outcome(store, submission, outcome)
    raise typer.Exit(EXIT_CODES[outcome.status])


def submit(
    dataset: Dataset,
    recipe: Recipe,
    name: Name = "",
    policy: Policy = None,
    max_gpu_hours: MaxGpuHours = None,
    gate: Gates = None,
    key: Key = "",
    holdout: Holdout = None,
) -> None:
    """Ask for an adapter and return at once; the submissions sensor of a running Dagster does the rest."""
    from ft_assets.cli.output import note

    submission = ask(
        open_store(),
        dataset,
        recipe,
        name,
        policy,
        driver="sensor",
        max_gpu_hours=max_gpu_hours,
        gates=gate or (),
        key=key,
        holdout=holdout or (),
    )
    print(submission.id)
    note(f"{submission.dataset} with {submission.recipe}; watch it: ft status {submission.id}")
    if submission.driver == "caller":
        note("an ft run is at it already; should that be gone, go on with: ft run instead of ft submit")


def ask(
    store: "Store",
    dataset: str,
    recipe: str,
    name: str,
    policy: Path | None,
    *,
    driver: str,
    max_gpu_hours: float | None = None,
    gates: Sequence[str] = (),
    key: str = "",
    holdout: Sequence[Path] = (),
) -> "Submission":
    """The submission for a pair given by keys or files; the open one, if somebody asked before, or that of ``key``.

    Says what the training is estimated to take.
    """
    from ft_assets.cli.estimate import note_estimate
    from ft_assets.cli.output import note
    from ft_assets.recipes.register import get_recipe, register_recipe
    from ft_assets.submissions.own_keys import check_own_key
    from ft_assets.submissions.record import check_maximum, check_wish, resubmit_key
    from ft_assets.submissions.record import submit as record
    from ft_resources.errors import UserError

    check_maximum(max_gpu_hours)
    check_own_key(key)
    if (Path(dataset).suffix in (".jsonl", ".json") or dataset.startswith("hub:")) and not name:
        raise UserError("a file needs a name", where=dataset, remedy="Say what it is: --name tenant.name")
    if holdout and not name:
        raise UserError(
            "holdout rows belong to a dataset version, and this one has its own",
            where="--holdout",
            remedy="Give the training rows as a file too, with --name: both together are the next version.",
        )
    dataset_key = add_version(dataset, name, policy, holdout=holdout)[0] if name else dataset
    if recipe.endswith((".yaml", ".yml")):
        recipe_key = register_recipe(store, Path(recipe), actor=actor()).key
    else:
        recipe_key = get_recipe(store, recipe).recipe.key
    check_wish(store, dataset_key, recipe_key)
    note_estimate(store, dataset_key, recipe_key, max_gpu_hours)
    submission, _ = record(
        store,
        dataset=dataset_key,
        recipe=recipe_key,
        actor=actor(),
        origin="cli",
        driver="caller" if driver == "caller" else "sensor",
        idempotency_key=key or resubmit_key(store, dataset_key, recipe_key, gates),
        max_gpu_hours=max_gpu_hours,
        gates=gates,
    )
    for warning in submission.warnings:
        note(warning)
    if submission.max_gpu_hours != max_gpu_hours:
        held = (
            "no maximum" if submission.max_gpu_hours is None else f"a maximum of {submission.max_gpu_hours:g} GPU-hours"
        )
        note(f"the pair was asked for before and is under way, with {held}")
    return submission
