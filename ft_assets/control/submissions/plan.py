"""The pure plan: from what is wanted and what exists to what to launch and what has ended."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ft_assets.records.failures import Failure
from ft_assets.records.submissions import Submission, SubmissionStatus


class Stage(StrEnum):
    """The jobs of a submission; each has one partition set, and ``train_trial`` has a run for each trial of a sweep."""

    PREPARE_DATASET = "prepare_dataset"
    PREPARE_RECIPE = "prepare_recipe"
    TRAIN_TRIAL = "train_trial"
    TRAIN_PAIR = "train_pair"
    EXPORT_PAIR = "export_pair"


class RunState(StrEnum):
    """State of a stage's newest run, as the plan needs it."""

    NONE = "none"
    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    # Failed because Dagster's own database did not answer; what it made is kept.
    CUT_OFF = "cut off"
    CANCELLED = "cancelled"


# How often a stage is relaunched after runs that were cut off. A relaunch may hit the same outage; after three, the
# cause is not an outage.
MOST_AGAIN = 2


@dataclass(frozen=True, kw_only=True)
class Present:
    """What exists for a submission: which stages' artifacts, the adapter, and the reasons of a rejection with
    ``suggestions`` of what to try. ``exports`` are the formats of the adapter that the recipe asks for and that are not
    made yet. ``ungated`` is the result's address where the recipe has no gates.

    ``held`` is why a person must review the dataset first; nothing is launched before an approval.
    ``problem`` is what cannot be read, or may not be launched; then nothing can be launched. ``failure`` is the same
    for the record, where an error was raised.
    ``trials`` are the recipe keys of a sweep's trials that have not ended; the pair waits for them.
    """

    done: frozenset[Stage]
    adapter: str = ""
    exports: tuple[str, ...] = ()
    ungated: str = ""
    rejection: str = ""
    suggestions: tuple[str, ...] = ()
    held: str = ""
    problem: str = ""
    failure: Failure | None = None
    trials: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Start the job ``stage`` for ``partition``; ``trial`` is the recipe key of a sweep's trial.

    ``again`` counts the launches after runs that were cut off, ``resumed`` how often the submission was resumed before.
    """

    submission: Submission
    stage: Stage
    trial: str = ""
    again: int = 0
    resumed: int = 0

    @property
    def partition(self) -> str:
        by_stage = {
            Stage.PREPARE_DATASET: self.submission.dataset,
            Stage.PREPARE_RECIPE: self.submission.recipe,
            Stage.TRAIN_TRIAL: f"{self.submission.dataset}|{self.trial}",
            Stage.TRAIN_PAIR: self.submission.pair,
            Stage.EXPORT_PAIR: self.submission.pair,
        }
        return by_stage[self.stage]

    @property
    def trains(self) -> bool:
        """Whether it counts toward the trainings that a tenant may have at once."""
        return self.stage in (Stage.TRAIN_TRIAL, Stage.TRAIN_PAIR)

    @property
    def run_key(self) -> str:
        """Run key derived from content, so that a repeated tick launches nothing twice."""
        numbers = [f"resumed-{self.resumed}"] if self.resumed else []
        numbers += [f"again-{self.again}"] if self.again else []
        return ":".join([self.submission.id, self.stage, *([self.trial] if self.trial else []), *numbers])


@dataclass(frozen=True, kw_only=True)
class Finish:
    """Record how the submission ended. ``of_run``: a run failed, and Dagster knows why."""

    submission: Submission
    status: SubmissionStatus
    adapter: str = ""
    reason: str = ""
    suggestions: tuple[str, ...] = ()
    failure: Failure | None = None
    of_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An open submission with its state; ``trial_runs`` by the recipe keys of a sweep's trials.

    ``again`` counts relaunches after cut-off runs, by stage or by a trial's recipe key. ``paused`` says that a person
    paused it, ``resumed`` how often it was resumed; the runs are those since then.
    """

    submission: Submission
    present: Present
    runs: dict[Stage, RunState]
    trial_runs: dict[str, RunState] = field(default_factory=dict)
    again: dict[str, int] = field(default_factory=dict)
    paused: bool = False
    resumed: int = 0

    def of_stage(self, stage: Stage) -> RunState:
        """State of the stage's newest run; one that was cut off too often has failed."""
        return self._bounded(stage, self.runs.get(stage, RunState.NONE))

    def of_trial(self, key: str) -> RunState:
        """The same for a trial, by its recipe key."""
        return self._bounded(key, self.trial_runs.get(key, RunState.NONE))

    def launch(self, stage: Stage, trial: str = "") -> Launch:
        """The stage's, or the trial's, first launch, or the next one after a run that was cut off."""
        state = self.of_trial(trial) if trial else self.of_stage(stage)
        again = self.again.get(trial or stage, 0) + 1 if state is RunState.CUT_OFF else 0
        return Launch(submission=self.submission, stage=stage, trial=trial, again=again, resumed=self.resumed)

    def _bounded(self, key: str, state: RunState) -> RunState:
        spent = state is RunState.CUT_OFF and self.again.get(key, 0) >= MOST_AGAIN
        return RunState.FAILED if spent else state


# States that allow a launch: there was no run yet, or the last one was cut off.
_TO_LAUNCH = (RunState.NONE, RunState.CUT_OFF)


def plan(wanted: Iterable[Wanted], places: Mapping[str, int] | None = None) -> list[Launch | Finish]:
    """The actions that advance every submission by one step; none for those that only wait.

    ``places`` has the number of further trainings allowed at once, for tenants with a limit; a later tick launches
    the rest.
    """
    actions: list[Launch | Finish] = []
    free = dict(places or {})
    for item in wanted:
        for action in _steps(item):
            tenant = item.submission.tenant
            if isinstance(action, Launch) and action.trains and tenant in free:
                if free[tenant] <= 0:
                    continue
                free[tenant] -= 1
            actions.append(action)
    return actions


def _steps(item: Wanted) -> list[Launch | Finish]:
    submission, present = item.submission, item.present
    # A run in progress will hit the problem itself; wait for its end.
    pair = item.of_stage(Stage.TRAIN_PAIR)
    active = RunState.ACTIVE in (pair, *item.trial_runs.values())
    if present.problem and not active and not item.paused:
        failed, failure = SubmissionStatus.FAILED, present.failure
        return [Finish(submission=submission, status=failed, reason=present.problem, failure=failure)]
    if present.adapter and present.exports and not item.paused:
        # However an export ends, the adapter is accepted: then nothing is left to launch or to wait for.
        state = item.of_stage(Stage.EXPORT_PAIR)
        if state in (*_TO_LAUNCH, RunState.ACTIVE):
            return [] if state is RunState.ACTIVE else [item.launch(Stage.EXPORT_PAIR)]
    if present.adapter:
        return [Finish(submission=submission, status=SubmissionStatus.ACCEPTED, adapter=present.adapter)]
    if present.ungated:
        return [Finish(submission=submission, status=SubmissionStatus.UNGATED, adapter=present.ungated)]
    if pair is RunState.ACTIVE:
        return []
    ended = (RunState.SUCCEEDED,) if item.paused else (RunState.SUCCEEDED, RunState.FAILED)
    if present.rejection and pair in ended:
        return [
            Finish(
                submission=submission,
                status=SubmissionStatus.REJECTED,
                reason=present.rejection,
                suggestions=present.suggestions,
            )
        ]
    # However else its runs ended, the pause stopped them.
    if item.paused:
        return []
    for stage in Stage:
        state = item.of_stage(stage)
        if state is RunState.CANCELLED:
            return [Finish(submission=submission, status=SubmissionStatus.CANCELLED, reason=f"{stage} was cancelled")]
        # An artifact counts even if its run failed: what was made before is kept.
        if state in (RunState.FAILED, RunState.SUCCEEDED) and stage not in present.done:
            reason = f"{stage} failed; open its run in the UI, or: ft logs {submission.id}"
            return [Finish(submission=submission, status=SubmissionStatus.FAILED, reason=reason, of_run=True)]
    if present.held:
        return []
    prepare = [stage for stage in (Stage.PREPARE_DATASET, Stage.PREPARE_RECIPE) if stage not in present.done]
    if present.trials and not prepare:
        return _trial_steps(item)
    wanted = prepare or [Stage.TRAIN_PAIR]
    return [item.launch(stage) for stage in wanted if item.of_stage(stage) in _TO_LAUNCH]


def _trial_steps(item: Wanted) -> list[Launch | Finish]:
    """Actions of a sweep without a winner. A failed or cancelled trial does not stop the others half-way."""
    states = {key: item.of_trial(key) for key in item.present.trials}
    launches: list[Launch | Finish] = [
        item.launch(Stage.TRAIN_TRIAL, key)
        for key, state in states.items()
        if state in _TO_LAUNCH and not item.present.problem
    ]
    cancelled = [key for key, state in states.items() if state is RunState.CANCELLED]
    if cancelled and RunState.ACTIVE not in states.values():
        reason = f"the trial {cancelled[0]} was cancelled; submit the sweep again to continue it"
        return [Finish(submission=item.submission, status=SubmissionStatus.CANCELLED, reason=reason)]
    if launches or cancelled or RunState.ACTIVE in states.values():
        return [] if cancelled else launches
    # All missing trials have run, and each ended without a checkpoint and without a final ending.
    reason = f"these trials have no result: {', '.join(states)}; open their runs in the UI, or: ft logs "
    reason += item.submission.id
    return [Finish(submission=item.submission, status=SubmissionStatus.FAILED, reason=reason, of_run=True)]
