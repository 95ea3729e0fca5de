"""The pure plan: what is wanted and what is present decide what to launch and what has ended."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ft_assets.submissions.record import Submission, SubmissionStatus


class Stage(StrEnum):
    """The three jobs of a submission; each has one partition set."""

    PREPARE_DATASET = "prepare_dataset"
    PREPARE_RECIPE = "prepare_recipe"
    TRAIN_PAIR = "train_pair"


class RunState(StrEnum):
    """What the plan needs to know of a stage's newest run."""

    NONE = "none"
    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Present:
    """What exists for a submission: which stages' artifacts, the adapter, and the reasons of a rejection.

    ``held`` says why a person must look at the dataset first; nothing is launched until somebody approves it.
    ``problem`` says what of it cannot be read, or may not be launched; nothing can be launched then.
    """

    done: frozenset[Stage]
    adapter: str = ""
    rejection: str = ""
    held: str = ""
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Start the job ``stage`` for ``partition``."""

    submission: Submission
    stage: Stage

    @property
    def partition(self) -> str:
        by_stage = {
            Stage.PREPARE_DATASET: self.submission.dataset,
            Stage.PREPARE_RECIPE: self.submission.recipe,
            Stage.TRAIN_PAIR: self.submission.pair,
        }
        return by_stage[self.stage]

    @property
    def run_key(self) -> str:
        """Derived from content, so that a repeated tick launches nothing twice."""
        return f"{self.submission.id}:{self.stage}"


@dataclass(frozen=True, kw_only=True)
class Finish:
    """Record how the submission ended."""

    submission: Submission
    status: SubmissionStatus
    adapter: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An open submission with what is known of it."""

    submission: Submission
    present: Present
    runs: dict[Stage, RunState]


def plan(wanted: Iterable[Wanted]) -> list[Launch | Finish]:
    """The actions that bring every submission one step further; none for those that only wait."""
    actions: list[Launch | Finish] = []
    for item in wanted:
        actions.extend(_steps(item))
    return actions


def _steps(item: Wanted) -> list[Launch | Finish]:
    submission, present = item.submission, item.present
    # A run that is under way will meet the problem itself; its end is waited for.
    if present.problem and item.runs.get(Stage.TRAIN_PAIR) is not RunState.ACTIVE:
        return [Finish(submission=submission, status=SubmissionStatus.FAILED, reason=present.problem)]
    if present.adapter:
        return [Finish(submission=submission, status=SubmissionStatus.ACCEPTED, adapter=present.adapter)]
    if item.runs.get(Stage.TRAIN_PAIR) is RunState.ACTIVE:
        return []
    if present.rejection and item.runs.get(Stage.TRAIN_PAIR) in (RunState.FAILED, RunState.SUCCEEDED):
        return [Finish(submission=submission, status=SubmissionStatus.REJECTED, reason=present.rejection)]
    for stage in Stage:
        state = item.runs.get(stage, RunState.NONE)
        if state is RunState.CANCELLED:
            return [Finish(submission=submission, status=SubmissionStatus.CANCELLED, reason=f"{stage} was cancelled")]
        # What was made stands, whatever became of the run: that of a held dataset ends with a failed check.
        if state in (RunState.FAILED, RunState.SUCCEEDED) and stage not in present.done:
            reason = f"{stage} failed; open its run in the UI, or: ft logs {submission.id}"
            return [Finish(submission=submission, status=SubmissionStatus.FAILED, reason=reason)]
    if present.held:
        return []
    prepare = [stage for stage in (Stage.PREPARE_DATASET, Stage.PREPARE_RECIPE) if stage not in present.done]
    wanted = prepare or [Stage.TRAIN_PAIR]
    return [
        Launch(submission=submission, stage=stage)
        for stage in wanted
        if item.runs.get(stage, RunState.NONE) is RunState.NONE
    ]
