"""Failed Dagster runs: what is known of why, and which of them somebody has to be told of by themselves.

A run that works for a submission is told of with the submission's end, once. All others have nobody else to speak for
them: runs of one asset from the UI, backfills of datasets, runs whose code could not even be loaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg
from pydantic import BaseModel, ConfigDict

from ft_assets import tags
from ft_assets.keys import SHARED, DatasetKey, RecipeKey, check_part
from ft_assets.notices.due import mark_due
from ft_assets.notices.failures import Failure, chain_of, of_lost_run, of_step
from ft_assets.submissions.record import Submission, find_outcome, find_submission, submission_id
from ft_resources.canonical import canonical_json
from ft_resources.errors import UserError
from ft_resources.store import Store

RUN_FAILURES = "run_failures"
# Dagster says whether it retries a moment after the failure; if it never does, somebody is told all the same.
UNDECIDED_FOR = timedelta(minutes=10)


class FailedRun(BaseModel):
    """The record of a run that failed and was launched for no submission."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    job: str
    partition: str
    tenant: str
    failure: Failure
    at: str


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A failed run as the plan looks at it; ``retried`` is None while Dagster has not decided."""

    run_id: str
    failed_at: datetime
    retried: bool | None
    of_submission: bool


def plan_failures(seen: Sequence[Seen], now: datetime) -> tuple[list[str], datetime | None]:
    """Pure: the runs to tell of, and the time of the first that has to be looked at again.

    ``seen`` is in the order in which they failed.
    """
    tell: list[str] = []
    again: datetime | None = None
    for each in seen:
        undecided = each.retried is None and now - each.failed_at < UNDECIDED_FOR
        if undecided:
            again = again or each.failed_at
        elif not each.retried and not each.of_submission:
            tell.append(each.run_id)
    return tell, again


def see(instance: dg.DagsterInstance, store: Store, record: dg.RunRecord) -> Seen:
    """The run as the plan looks at it. Raises UserError for submissions that cannot be read."""
    run = record.dagster_run
    said = run.tags.get("dagster/will_retry")
    undecided = None if instance.run_retries_enabled else False
    return Seen(
        run_id=run.run_id,
        failed_at=_utc(record.update_timestamp),
        retried=undecided if said is None else said == "true",
        of_submission=_is_spoken_for(store, record),
    )


def record_failure(instance: dg.DagsterInstance, store: Store, record: dg.RunRecord) -> None:
    """Record why the run failed, for the notices. One run, retried or not, is recorded once."""
    run = record.dagster_run
    tenant = tenant_of(run)
    failed = FailedRun(
        run=run.run_id,
        job=run.job_name if not run.job_name.startswith("__") else "materialize",
        partition=run.tags.get("dagster/partition", ""),
        tenant=tenant,
        failure=failure_of(instance, run.run_id),
        at=_utc(record.update_timestamp).isoformat(timespec="seconds"),
    )
    path = f"{tenant}/{RUN_FAILURES}/{run.root_run_id or run.run_id}.json"
    if not store.exists(path):
        mark_due(store, "run", tenant, path)
        store.create(path, canonical_json(failed.model_dump(mode="json")))


def failure_of_submission(instance: dg.DagsterInstance, submission: Submission) -> Failure | None:
    """Why the newest failed run of the submission failed; None where none did."""
    failed = [dg.DagsterRunStatus.FAILURE]
    runs = list(instance.get_runs(dg.RunsFilter(tags={tags.SUBMISSION: submission.id}, statuses=failed), limit=1))
    if submission.run_id:
        by_root = dg.RunsFilter(tags={"dagster/root_run_id": submission.run_id}, statuses=failed)
        own = dg.RunsFilter(run_ids=[submission.run_id], statuses=failed)
        runs += [*instance.get_runs(by_root, limit=1), *instance.get_runs(own, limit=1)]
    return failure_of(instance, runs[0].run_id) if runs else None


def failure_of(instance: dg.DagsterInstance, run_id: str) -> Failure:
    """Why a run failed, by the first of its steps that did."""
    found = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.STEP_FAILURE, limit=1).records
    event = found[0].event_log_entry.dagster_event if found else None
    if event is None:
        return of_lost_run()
    data = event.step_failure_data
    user = data.user_failure_data
    return of_step(event.step_key or "", chain_of(data.error), (user.description or "") if user else "")


def tenant_of(run: dg.DagsterRun) -> str:
    """Whose run it is, by its keys; ``shared`` where they say nothing. A tag that somebody set says nothing."""
    partition = run.tags.get("dagster/partition", "")
    for text in partition.split("|"):
        for parse in (DatasetKey.parse, RecipeKey.parse):
            try:
                key: DatasetKey | RecipeKey = parse(text)
                return check_part(key.tenant, "tenant") if key.tenant else SHARED
            except UserError:
                continue
    return SHARED


def _is_spoken_for(store: Store, record: dg.RunRecord) -> bool:
    """Whether the end of a submission tells of this run: the one that it was launched for, or that it recorded."""
    run = record.dagster_run
    partition = run.tags.get("dagster/partition", "")
    tenant, ids = tenant_of(run), []
    if tags.SUBMISSION in run.tags:
        tenant, ids = run.tags.get(tags.TENANT, tenant), [run.tags[tags.SUBMISSION]]
    elif "|" in partition:
        dataset, _, recipe = partition.partition("|")
        key = f"run-{run.root_run_id or run.run_id}"
        ids = [submission_id(dataset, recipe, key, mode=mode) for mode in ("train", "carry")]
    for each in ids:
        submission = find_submission(store, tenant, each)
        if submission is not None:
            outcome = find_outcome(store, submission)
            # One that had ended when the run was launched has nothing to say of it.
            return outcome is None or datetime.fromisoformat(outcome.at) >= _utc(record.create_timestamp)
    return False


def _utc(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)
