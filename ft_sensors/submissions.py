"""Brings every open submission one step further: prepare the dataset, prepare the recipe, train the pair."""

from collections.abc import Iterator
from itertools import islice

import dagster as dg

from ft_assets import tags
from ft_assets.submissions.jobs import prepare_dataset, prepare_recipe, train_pair
from ft_assets.submissions.plan import Launch, Wanted, plan
from ft_assets.submissions.present import present
from ft_assets.submissions.record import Submission, finish, open_submissions
from ft_assets.submissions.run import register_partitions
from ft_assets.submissions.runs import as_dagster_shows, run_states
from ft_resources.dagster_resources import StoreResource

# A tick has 60 s; reading one submission takes some milliseconds.
_BATCH = 200


@dg.sensor(
    jobs=[prepare_dataset, prepare_recipe, train_pair],
    minimum_interval_seconds=5,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def submissions_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | dg.SkipReason:
    """Launch what open submissions need next, and record how they ended."""
    submissions = list(islice(_after(open_submissions(store.store), context.cursor), _BATCH))
    wanted = [
        Wanted(
            submission=submission,
            present=as_dagster_shows(context.instance, submission, present(store.artifacts, submission)),
            runs=run_states(context.instance, submission),
        )
        for submission in submissions
        if submission.driver != "caller"
    ]
    requests = []
    finished = 0
    for action in plan(wanted):
        if isinstance(action, Launch):
            requests.append(_request(context.instance, action))
        else:
            finish(store.store, action.submission, action.status, adapter=action.adapter, reason=action.reason)
            finished += 1
    # A full batch continues after its last submission with the next tick, else the next tick starts over.
    cursor = submissions[-1].path if len(submissions) == _BATCH else ""
    if requests:
        return dg.SensorResult(run_requests=requests, cursor=cursor)
    context.update_cursor(cursor)
    waiting = len(wanted) - finished
    return dg.SkipReason(f"looked at {len(submissions)} open submissions: {waiting} wait, {finished} ended")


def _request(instance: dg.DagsterInstance, action: Launch) -> dg.RunRequest:
    submission = action.submission
    register_partitions(instance, dataset=submission.dataset, recipe=submission.recipe)
    return dg.RunRequest(
        run_key=action.run_key,
        job_name=action.stage.value,
        partition_key=action.partition,
        tags={tags.SUBMISSION: submission.id, tags.ACTOR: submission.actor, tags.TENANT: submission.tenant},
    )


def _after(submissions: Iterator[Submission], cursor: str | None) -> Iterator[Submission]:
    return (submission for submission in submissions if not cursor or submission.path > cursor)
