"""What Dagster's runs say about a submission."""

import dagster as dg
import pytest

from ft_assets.control.submissions.plan import RunState, Stage
from ft_assets.graph.runs import SubmissionRuns, run_states
from ft_assets.records.submissions import Submission
from ft_assets.settings import tags

SUBMISSION = Submission(
    id="0" * 16,
    dataset="acme.support.v1",
    recipe="tiny.v1",
    actor="ann",
    origin="ui",
    idempotency_key="k",
    driver="sensor",
    created_at="2026-01-01T00:00:00+00:00",
)


@pytest.mark.parametrize(
    ("retries", "decision", "state"),
    [
        (True, None, RunState.ACTIVE),
        (True, "true", RunState.ACTIVE),
        (True, "false", RunState.FAILED),
        (False, None, RunState.FAILED),
    ],
)
def test_a_run_has_failed_for_good_only_when_dagster_will_not_retry_it(
    retries: bool, decision: str | None, state: RunState
) -> None:
    run_tags = {tags.SUBMISSION: SUBMISSION.id}
    if decision is not None:
        run_tags["dagster/will_retry"] = decision
    with dg.instance_for_test({"run_retries": {"enabled": retries}}) as instance:
        # The moment between Dagster's two writes: the status is stored, the decision is not.
        run = dg.DagsterRun(job_name=str(Stage.TRAIN_PAIR), tags=run_tags, status=dg.DagsterRunStatus.FAILURE)
        instance.add_run(run)
        assert run_states(instance, SUBMISSION) == SubmissionRuns(stages={Stage.TRAIN_PAIR: state})
