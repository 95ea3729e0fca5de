"""``ft cancel``: stop a submission on purpose."""

from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.environment import actor, open_instance, open_store

if TYPE_CHECKING:
    import dagster as dg

    from ft_assets.submissions.record import Submission
    from ft_resources.artifacts import Address
    from ft_resources.store import Store


def cancel(submission: Annotated[str, typer.Argument(help="The submission's id.")]) -> None:
    """Stop the work of a submission, unless another one needs it too, and record that it was cancelled."""
    from ft_assets.cli.output import note
    from ft_assets.submissions.record import SubmissionStatus, find_outcome, finish
    from ft_assets.submissions.sharing import needed_by_others
    from ft_assets.submissions.status import get_submission
    from ft_resources.errors import UserError
    from ft_resources.execution import Execution
    from ft_resources.launchers.choice import launcher_kind, make_launcher

    store = open_store()
    found = get_submission(store, submission)
    outcome = find_outcome(store, found)
    if outcome is not None and outcome.status is not SubmissionStatus.CANCELLED:
        raise UserError(f"it has ended already: {outcome.status}", where=f"submission {submission}")
    mine = [address for address in _addresses(store, found) if not needed_by_others(store, address, found)]
    # The record first: nothing starts for an ended submission, so what is stopped below stays stopped.
    finish(store, found, SubmissionStatus.CANCELLED, reason=f"cancelled by {actor()}")
    runs = _terminate_runs(open_instance(), found)
    execution = Execution(store=store, launcher=make_launcher(launcher_kind()))
    stopped = [address for address in mine if execution.cancel(address, actor=actor())]
    print(f"cancelled {submission}")
    note(f"stopped {runs} runs and {len(stopped)} workers")
    for address in stopped:
        note(f"  {short(str(address))}")


def _addresses(store: "Store", submission: "Submission") -> "list[Address]":
    from ft_assets.submissions.status import read_works

    return [work.address for work in read_works(store, submission) if work.address is not None and work.running]


def _terminate_runs(instance: "dg.DagsterInstance", submission: "Submission") -> int:
    """End the submission's queued and running Dagster runs; how many there were."""
    import dagster as dg

    from ft_assets import tags

    active = [
        dg.DagsterRunStatus.QUEUED,
        dg.DagsterRunStatus.NOT_STARTED,
        dg.DagsterRunStatus.STARTING,
        dg.DagsterRunStatus.STARTED,
    ]
    filters = [dg.RunsFilter(tags={tags.SUBMISSION: submission.id}, statuses=active)]
    if submission.run_id:
        filters.append(dg.RunsFilter(run_ids=[submission.run_id], statuses=active))
    ended = 0
    for run in {run.run_id: run for chosen in filters for run in instance.get_runs(filters=chosen)}.values():
        # A run in somebody's terminal has no process that Dagster could end; it ends as its worker is stopped.
        if tags.FOREGROUND not in run.tags and instance.run_coordinator.cancel_run(run.run_id):
            ended += 1
    return ended
