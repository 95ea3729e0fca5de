"""The trials of a submission's sweep, for ``ft status``."""

from dataclasses import dataclass
from typing import Any

from ft_assets.control.submissions.works import Work, read_works
from ft_assets.control.sweeps.trial_states import sweep_decision, trial_states
from ft_assets.records.submissions import Submission
from ft_resources.artifacts import Artifacts
from ft_resources.errors import HeldForReview, MissingInput
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class TrialProgress:
    """State of one trial: ``state`` is queued, training, trained, or how it ended; metrics as far as they exist."""

    trial: str
    values: dict[str, Any]
    state: str
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    validation_loss: float | None = None
    tokens_per_s: float | None = None
    winner: bool = False


def trial_progress(store: Store, submission: Submission) -> list[TrialProgress]:
    """The trials in order; empty if the recipe is not a sweep."""
    artifacts = Artifacts(store)
    try:
        decision = sweep_decision(artifacts, submission.dataset, submission.recipe)
    except (MissingInput, HeldForReview):
        decision = None
    works = {work.trial: work for work in read_works(store, submission) if work.trial}
    found = []
    for state in trial_states(artifacts, submission.dataset, submission.recipe):
        trial, result = state.trial, state.result
        if decision is not None:
            # The recorded decision counts, whatever happened since.
            result = next((each for each in decision.trials if each.number == trial.number), result)
        work = works[trial.key]
        progress = {} if result else work.progress
        found.append(
            TrialProgress(
                trial=trial.key,
                values=trial.values,
                state=(result.ending or "trained") if result else _state(work),
                step=result.steps if result else progress.get("done"),
                steps=result.steps if result else progress.get("total"),
                loss=progress.get("loss"),
                validation_loss=result.loss if result else None,
                tokens_per_s=result.tokens_per_s if result else progress.get("tokens_per_s"),
                winner=decision is not None and trial.number == decision.winner,
            )
        )
    return found


def _state(work: Work) -> str:
    if work.running:
        return "training"
    return str(work.ending.outcome) if work.ending else "queued"
