"""Failed Dagster runs as notices see them: read from Dagster, and recorded where they speak for themselves."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from ft_assets.control.notices.runs import RUN_FAILURES, FailedRun, Seen, plan_failures
from ft_assets.control.submissions.failures import chain_of, of_lost_run, of_step
from ft_assets.control.submissions.works import last_attempts
from ft_assets.records.due_notices import mark_due
from ft_assets.records.failures import Failure
from ft_assets.records.submissions import Submission, find_outcome, find_submission, submission_id
from ft_assets.settings import tags
from ft_assets.settings.keys import SHARED, DatasetKey, RecipeKey, check_part
from ft_resources.attempts import Attempt
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.store import Store

# Checks are steps of their own, and what they refuse is an asset.
_CHECKED = {"dataset_review": "dataset", "pack_doctor": "token_pack", "eval_gates": "eval_report"}


def record_failures(
    instance: dg.DagsterInstance, store: Store, records: Sequence[dg.RunRecord], now: datetime, problems: list[str]
) -> tuple[int, datetime | None]:
    """Record why runs failed that no submission speaks for, for the notices; one run, retried or not, once.

    ``records`` are in the order in which they failed; what cannot be read is added to ``problems``. Returns how many
    there are to tell of, and from when on to look again. Raises UserError where the store refuses.
    """
    found = {record.dagster_run.run_id: record for record in records}
    seen: list[Seen] = []
    for run_id, record in found.items():
        # A rejection is a result, and a hold waits for a person: each has a notice of its own.
        if record.dagster_run.tags.get(tags.VERDICT) in ("rejected", "held"):
            continue
        try:
            seen.append(_see(instance, store, record))
        except UserError as error:
            problems.append(f"run {run_id}: {error.what}")
    told, again = plan_failures(seen, now)
    for run_id in told:
        _record(instance, store, found[run_id])
    return len(told), again


def _see(instance: dg.DagsterInstance, store: Store, record: dg.RunRecord) -> Seen:
    """The run in the form that the plan reads. Raises UserError for submissions that cannot be read."""
    run = record.dagster_run
    said = run.tags.get("dagster/will_retry")
    undecided = None if instance.run_retries_enabled else False
    return Seen(
        run_id=run.run_id,
        failed_at=_utc(record.update_timestamp),
        retried=undecided if said is None else said == "true",
        of_submission=_is_spoken_for(store, record),
    )


def _record(instance: dg.DagsterInstance, store: Store, record: dg.RunRecord) -> None:
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
        failed.create(store, path)


def failure_of_submission(instance: dg.DagsterInstance, store: Store, submission: Submission) -> Failure | None:
    """Why the newest failed run of the submission failed; None if none did."""
    failed = [dg.DagsterRunStatus.FAILURE]
    runs = list(instance.get_runs(dg.RunsFilter(tags={tags.SUBMISSION: submission.id}, statuses=failed), limit=1))
    if submission.run_id:
        by_root = dg.RunsFilter(tags={"dagster/root_run_id": submission.run_id}, statuses=failed)
        own = dg.RunsFilter(run_ids=[submission.run_id], statuses=failed)
        runs += [*instance.get_runs(by_root, limit=1), *instance.get_runs(own, limit=1)]
    return failure_of(instance, runs[0].run_id, _attempts(store, submission)) if runs else None


def _attempts(store: Store, submission: Submission) -> list[Attempt]:
    """The last attempts at the submission's work, latest first; none if a record cannot be read, of which the run's
    own error tells."""
    try:
        return list(last_attempts(store, submission))[::-1]
    except StoreUnavailable:
        raise
    except UserError:
        return []


def failure_of(instance: dg.DagsterInstance, run_id: str, attempts: Sequence[Attempt] = ()) -> Failure:
    """Why a run failed, from its first failed step. ``attempts`` are those of the work that it may have waited for."""
    found = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.STEP_FAILURE, limit=1).records
    event = found[0].event_log_entry.dagster_event if found else None
    if event is None:
        return of_lost_run()
    data = event.step_failure_data
    user = data.user_failure_data
    asset = _CHECKED.get(event.step_key or "", event.step_key or "")
    return of_step(asset, chain_of(data.error), (user.description or "") if user else "", attempts)


def tenant_of(run: dg.DagsterRun) -> str:
    """The run's tenant, from its keys or whose source it reads; ``shared`` if none. Tags are not trusted."""
    partition = run.tags.get("dagster/partition", "")
    for text in (*partition.split("|"), _pulled(run)):
        for parse in (DatasetKey.parse, RecipeKey.parse):
            try:
                key: DatasetKey | RecipeKey = parse(text)
                return check_part(key.tenant, "tenant") if key.tenant else SHARED
            except UserError:
                continue
    return SHARED


def _pulled(run: dg.DagsterRun) -> str:
    """The first version of the dataset whose source a run reads, "" for other runs."""
    config: Any = run.run_config
    name = config.get("ops", {}).get("pull_rows", {}).get("config", {}).get("dataset", "")
    return f"{name}.v1" if run.job_name == "pull_dataset" else ""


def _is_spoken_for(store: Store, record: dg.RunRecord) -> bool:
    """Whether the end of a submission covers this run: the submission that launched it, or the one recorded for it."""
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
