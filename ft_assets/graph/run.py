"""Run a submission's jobs in this process: the same plan and jobs as the submissions sensor launches."""

from collections.abc import Callable
from functools import partial

import dagster as dg

from ft_assets import api
from ft_assets.api import Launch, Present, RunState, Stage, Wanted
from ft_assets.graph.cut_off import all_cut_off
from ft_assets.graph.declared import declared
from ft_assets.graph.failed_runs import failure_of_submission
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.queueing import tier_tags
from ft_assets.graph.retire_trials import retire_trials
from ft_assets.graph.runs import as_dagster_shows
from ft_assets.records.pauses import read_pauses
from ft_assets.records.submissions import Submission, SubmissionOutcome, SubmissionStatus, find_outcome
from ft_assets.settings import tags
from ft_assets.settings.environment import LOCATION
from ft_assets.settings.tenants import TenantsFile, load_tenants
from ft_resources.dagster_private import execute_here
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.run_processes import PROCESS, lost, process_tag
from ft_resources.run_states import ACTIVE_STATUSES
from ft_resources.store import Store


def drive(
    store: Store,
    instance: dg.DagsterInstance,
    submission: Submission,
    *,
    on_launch: Callable[[Launch], None] | None = None,
) -> SubmissionOutcome:
    """Run the submission's jobs in this process, one after the other, until it has ended.

    Raises HeldForReview, and leaves the submission open, if a person must review the dataset first, and
    SubmissionPaused if a person paused it. Any other problem of the pair is raised as its own UserError and ends the
    submission.
    """
    end_lost_runs(instance)
    list_keys(instance, dataset=submission.dataset, recipe=submission.recipe)
    runs: dict[Stage, RunState] = {}
    trial_runs: dict[str, RunState] = {}
    again: dict[str, int] = {}
    failure_of = partial(failure_of_submission, instance, store)
    resumed = 0
    while (outcome := find_outcome(store, submission)) is None:
        tenants, pauses = load_tenants(), read_pauses(store, submission)
        if pauses.resumed > resumed:
            # Paused and resumed again meanwhile, so the pause stopped what has not succeeded.
            resumed, runs, trial_runs, again = pauses.resumed, {}, {}, {}
        shown = as_dagster_shows(instance, submission, _present(store, submission, tenants))
        wanted = Wanted(
            submission=submission,
            present=shown,
            runs=runs,
            trial_runs=trial_runs,
            again=again,
            paused=pauses.standing is not None,
            resumed=resumed,
        )
        launches, ended = api.next_launches([wanted], failure_of=failure_of, store=store)
        if not launches:
            if not ended:
                # No run is active here, so only a person can be waited for; in the foreground nobody waits days.
                api.require_not_paused(submission, store=store)
                api.require_approved(submission.dataset, store=store)
            continue
        # One at a time: what it gives may say that the others are not wanted.
        action = launches[0]
        if on_launch:
            on_launch(action)
        state = _execute(store, instance, action, tenants)
        again[action.trial or action.stage] = action.again
        if action.trial:
            trial_runs[action.trial] = state
        else:
            runs[action.stage] = state
    retire_trials(store, instance)
    return outcome


def end_lost_runs(instance: dg.DagsterInstance) -> None:
    """Fail the runs whose ``ft run`` was killed; a daemon that watches runs does the same."""
    foreground = dg.RunsFilter(tags={tags.FOREGROUND: "true"}, statuses=ACTIVE_STATUSES)
    for run in instance.get_runs(filters=foreground):
        if words := lost(run):
            instance.report_run_failed(run, f"Failed: {words}. To continue, submit the pair again.")


def _present(store: Store, submission: Submission, tenants: TenantsFile) -> Present:
    """What is there. Ends the submission if the pair is impossible, such as data that the method cannot learn from."""
    try:
        return api.present(submission, store=store, tenants=tenants)
    except StoreUnavailable:
        raise
    except UserError as error:
        api.next_launches([Wanted(submission=submission, present=api.impossible(error), runs={})], store=store)
        raise


def launch_tags(action: Launch, tenants: TenantsFile) -> dict[str, str]:
    """The tags of a run that is launched for a submission."""
    submission = action.submission
    found = {tags.SUBMISSION: submission.id, tags.ACTOR: submission.actor, tags.TENANT: submission.tenant}
    found |= tier_tags(tenants, submission.tenant, trains=action.trains)
    found |= {tags.AGAIN: str(action.again)} if action.again else {}
    found |= {tags.RESUMED: str(action.resumed)} if action.resumed else {}
    return found | ({tags.TRIAL: action.trial} if action.trial else {})


def _stopped_on_purpose(store: Store, submission: Submission) -> bool:
    """Whether a person cancelled or paused the submission, which stops its workers."""
    outcome = find_outcome(store, submission)
    return read_pauses(store, submission).standing is not None or (
        outcome is not None and outcome.status is SubmissionStatus.CANCELLED
    )


def _execute(store: Store, instance: dg.DagsterInstance, action: Launch, tenants: TenantsFile) -> RunState:
    if action.trial:
        list_keys(instance, dataset=action.submission.dataset, recipe=action.trial)
    job = declared(store.url).resolve_job_def(action.stage.value)
    # Whoever was killed asks again; a retry by the daemon would go on behind their back.
    own = {tags.FOREGROUND: "true", PROCESS: process_tag(), "dagster/max_retries": "0"}
    run, events = execute_here(instance, job, action.partition, {**launch_tags(action, tenants), **own}, LOCATION)
    if any(event.event_type is dg.DagsterEventType.RUN_SUCCESS for event in events):
        return RunState.SUCCEEDED
    # Dagster does not raise a Ctrl-C again: it ends the step, and so the run, as failed by an interrupt.
    failures = [event.step_failure_data for event in events if event.is_step_failure]
    interrupt = dg.DagsterExecutionInterruptedError.__name__
    interrupted = any(failure.error and failure.error.cls_name == interrupt for failure in failures)
    if interrupted or _stopped_on_purpose(store, action.submission):
        # The checks of a failed run that it did not reach would be red.
        instance.report_run_canceled(run)
    if interrupted:
        return RunState.CANCELLED
    return RunState.CUT_OFF if all_cut_off(failures) else RunState.FAILED
