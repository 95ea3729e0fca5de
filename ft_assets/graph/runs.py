"""The Dagster runs of a submission, as the plan wants to know them."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from ft_assets.api import MOST_AGAIN, Present, RunState, Stage
from ft_assets.graph.cut_off import was_cut_off
from ft_assets.records.submissions import Submission, find_submission
from ft_assets.settings import tags
from ft_resources.store import Store

_STATES = {
    dg.DagsterRunStatus.SUCCESS: RunState.SUCCEEDED,
    dg.DagsterRunStatus.FAILURE: RunState.FAILED,
    dg.DagsterRunStatus.CANCELED: RunState.CANCELLED,
}


_NOT_ENDED = [status for status in dg.DagsterRunStatus if status not in _STATES]
# Of more, the others are looked at one by one.
_MOST_UNDER_WAY = 2000
# A sweep has a run for each trial, and more where they were retried.
_MAX_RUNS = 500


@dataclass(frozen=True, kw_only=True)
class SubmissionRuns:
    """The states of a submission's newest runs, by stage and, of a sweep's trials, by recipe key.

    ``again`` says of either which launch after cut-off runs it was, where it was one.
    """

    stages: dict[Stage, RunState] = field(default_factory=dict)
    trials: dict[str, RunState] = field(default_factory=dict)
    again: dict[str, int] = field(default_factory=dict)


def run_states(instance: dg.DagsterInstance, submission: Submission, resumed: int = 0) -> SubmissionRuns:
    """State of the newest run of each stage, and of each trial of a sweep. A failed run that Dagster will retry counts
    as active.

    ``resumed`` is how often the submission was resumed: a run that was launched before, and ended without success, was
    stopped by the pause and does not count.
    """
    runs: Sequence[dg.DagsterRun] = instance.get_runs(
        filters=dg.RunsFilter(tags={tags.SUBMISSION: submission.id}), limit=_MAX_RUNS
    )
    if submission.run_id:
        retried = instance.get_runs(filters=dg.RunsFilter(tags={"dagster/root_run_id": submission.run_id}), limit=50)
        own = instance.get_run_by_id(submission.run_id)
        runs = [*runs, *retried, *([own] if own else [])]
    found = SubmissionRuns()
    # Newest first, so the first run seen of a stage decides.
    for run in runs:
        stage, trial = _stage(run), run.tags.get(tags.TRIAL, "")
        if (trial in found.trials) if trial else (stage is None or stage in found.stages):
            continue
        state = _state(instance, run)
        if _resumed(run) < resumed and state not in (RunState.ACTIVE, RunState.SUCCEEDED):
            continue
        if trial:
            found.trials[trial] = state
        elif stage is not None:
            found.stages[stage] = state
        found.again.update(_again(trial or str(stage), run))
    return found


def under_way(instance: dg.DagsterInstance) -> dict[str, frozenset[Stage]]:
    """Stages with a queued or running run, by submission, in one query. Trials do not count."""
    found: dict[str, set[Stage]] = {}
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=_NOT_ENDED), limit=_MOST_UNDER_WAY):
        stage = _stage(run)
        if stage is not None and tags.SUBMISSION in run.tags and tags.TRIAL not in run.tags:
            found.setdefault(run.tags[tags.SUBMISSION], set()).add(stage)
    return {submission: frozenset(stages) for submission, stages in found.items()}


def only_waits(stages: frozenset[Stage]) -> bool:
    """Whether a submission with unfinished runs of these stages can only wait for one of them. Pure."""
    return Stage.TRAIN_PAIR in stages or {Stage.PREPARE_DATASET, Stage.PREPARE_RECIPE} <= stages


def as_dagster_shows(instance: dg.DagsterInstance, submission: Submission, present: Present) -> Present:
    """``present`` without the preparations that this instance has never seen. They are run once more, which is quick as
    everything is cached, so that the UI shows every partition's inputs.
    """
    prepared = {
        Stage.PREPARE_DATASET: ("dataset", submission.dataset),
        Stage.PREPARE_RECIPE: ("baseline_report", submission.recipe),
    }
    asked = {stage: found for stage, found in prepared.items() if stage in present.done}
    unseen = {stage for stage, (asset, key) in asked.items() if not _materialized(instance, asset, key)}
    return dataclasses.replace(present, done=present.done - unseen)


def submission_of(run_tags: Mapping[str, str], store: Store) -> Submission | None:
    """The submission that a run was launched for, or None."""
    if tags.SUBMISSION not in run_tags or tags.TENANT not in run_tags:
        return None
    return find_submission(store, run_tags[tags.TENANT], run_tags[tags.SUBMISSION])


def _materialized(instance: dg.DagsterInstance, asset: str, partition: str) -> bool:
    records = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[partition])
    return bool(instance.fetch_materializations(records, limit=1).records)


def _stage(run: dg.DagsterRun) -> Stage | None:
    if run.job_name in {str(stage) for stage in Stage}:
        return Stage(run.job_name)
    # Assets materialized straight from the UI run in Dagster's own unnamed job.
    return Stage.TRAIN_PAIR if run.asset_selection else None


def _again(key: str, run: dg.DagsterRun) -> dict[str, int]:
    """Anybody may set tags: a value that is not a number counts as the maximum of launches."""
    said = run.tags.get(tags.AGAIN)
    if said is None:
        return {}
    return {key: int(said) if said in map(str, range(MOST_AGAIN)) else MOST_AGAIN}


def _resumed(run: dg.DagsterRun) -> int:
    """How often the submission was resumed before the run was launched. Here too, a value may be anything."""
    said = run.tags.get(tags.RESUMED, "0")
    return int(said) if said.isdecimal() and len(said) < 10 else 0


def _state(instance: dg.DagsterInstance, run: dg.DagsterRun) -> RunState:
    if run.status is dg.DagsterRunStatus.FAILURE:
        # Dagster stores the failure first and its decision on a retry a moment later: no word yet is not a no.
        undecided = "true" if instance.run_retries_enabled else "false"
        if run.tags.get("dagster/will_retry", undecided) == "true":
            return RunState.ACTIVE
        if was_cut_off(instance, run.run_id):
            return RunState.CUT_OFF
    return _STATES.get(run.status, RunState.ACTIVE)
