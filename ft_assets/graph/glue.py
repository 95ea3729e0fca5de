"""Between a Dagster op and the work: run or reuse, mirror progress, and tell a cancel from a dying run worker."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dagster as dg
from dagster import DagsterExecutionInterruptedError

from ft_assets.control.submissions.pauses import require_not_paused
from ft_assets.control.submissions.sharing import needed_by_others
from ft_assets.graph.actors import acting
from ft_assets.graph.direct import record_direct_launch
from ft_assets.records.submissions import Submission, SubmissionStatus, find_outcome, find_submission
from ft_assets.records.training_alerts import record_alert
from ft_assets.settings import tags
from ft_assets.settings.keys import SHARED
from ft_assets.settings.tenants import TenantsFile, load_tenants
from ft_resources.artifacts import Artifact
from ft_resources.attempts import Attempt, Ending
from ft_resources.dagster_pods import pod_of_step
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import UserError
from ft_resources.execution import Observer
from ft_resources.interrupts import uninterrupted
from ft_resources.outcomes import POLICIES
from ft_resources.progress_words import describe_progress
from ft_resources.traced_work import traced
from ft_resources.tracking import default_uri, mirrored
from ft_resources.work import WorkRequest

_LOG_EVERY_S = 5.0


class DagsterObserver(Observer):
    """Mirrors a worker's progress into the run's log: alerts and phase changes immediately, counts every few
    seconds.

    Args:
        alerted: called once with each alert and the attempt that told it.
    """

    def __init__(self, log: Any, alerted: Callable[[Attempt, str], None]) -> None:
        self._log, self._alerted = log, alerted
        self._at: Attempt | None = None
        self._phase, self._logged = "", 0.0
        self._warned: set[str] = set()

    def attempt(self, attempt: Attempt, *, attached: bool) -> None:
        self._at = attempt
        self._log.info(f"{'attached to' if attached else 'started'} attempt {attempt.number} at {attempt.address}")

    def progress(self, progress: dict[str, Any]) -> None:
        for alert in progress.get("alerts", []):
            if alert not in self._warned:
                self._warned.add(alert)
                self._log.warning(alert)
                if self._at is not None:
                    self._alerted(self._at, alert)
        phase = str(progress.get("phase", ""))
        if phase == self._phase and time.monotonic() - self._logged < _LOG_EVERY_S:
            return
        self._phase, self._logged = phase, time.monotonic()
        self._log.info(describe_progress(progress))

    def waiting(self, why: str, delay_s: float) -> None:
        self._log.info(f"waiting for resources: {why}; next attempt in {delay_s:.0f} s")

    def retrying(self, ending: Ending, delay_s: float, change: str) -> None:
        policy, how = POLICIES[ending.outcome], f" {change}" if change else ""
        why = f" ({ending.error['what']})" if ending.error else ""
        self._log.warning(f"the worker {policy.message}{why}; next attempt{how} in {delay_s:.1f} s")


def run_work(
    context: dg.AssetExecutionContext, store: StoreResource, launcher: LauncherResource, request: WorkRequest
) -> Artifact:
    """The artifact named by ``request``, made in a worker unless it exists.

    When the op is interrupted, a cancel (status CANCELING) stops the work, unless another submission needs it too; a
    run worker that is being shut down (status STARTED) leaves it running, and the retried run attaches. Raises
    UserError where the run's submission was paused, or cancelled, in the meantime.
    """
    submission = _submission(context, store, request)
    request = _with_priority(context, request)
    if pods := launcher.launcher.pods:
        pod = pod_of_step(context, pods)
        request = replace(request, resources=request.resources.model_copy(update={"pod": pod}))
    execution = launcher.execution(store.store)
    actor = acting(context, store.store)
    # Around the cancel, so that MLflow learns of it, and so that stopping the work does not wait for MLflow.

    def alerted(attempt: Attempt, alert: str) -> None:
        """No notice is worth a failed run."""
        if submission is None:
            return
        try:
            record_alert(store.store, submission, str(attempt.address), attempt.number, alert)
        except UserError as error:
            context.log.warning(f"no notification was sent: {error}")

    told = DagsterObserver(context.log, alerted)
    with (
        traced(request.asset, submission.id if submission else "", told) as noted,
        mirrored(default_uri(), context.log, noted) as observer,
    ):
        try:
            result = execution.run(request, actor=actor, observer=observer)
        except (DagsterExecutionInterruptedError, KeyboardInterrupt):
            with uninterrupted():
                run = context.instance.get_run_by_id(context.run_id)
                cancelled = run is None or run.status in (dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED)
                if not (cancelled or tags.FOREGROUND in context.run.tags):
                    context.log.info(
                        "this run worker is shutting down; the work continues and the retried run attaches to it"
                    )
                elif needed_by_others(store.store, request.address, submission):
                    context.log.info("cancelled; the work continues for another submission that needs it")
                else:
                    context.log.info("cancelled: stopping the work")
                    execution.cancel(request.address, actor=actor)
            raise
    context.log.info("cached, nothing to do" if result.cached else f"made in {result.attempts} attempt(s)")
    return result.artifact


def _with_priority(context: dg.AssetExecutionContext, request: WorkRequest) -> WorkRequest:
    """``request`` with the priority of the tier that asks: of what is shared, the tier of the run's tenant, if any.

    It decides who waits on a cluster, and nothing of the result.
    """
    tenant = request.tenant if request.tenant != SHARED else context.run.tags.get(tags.TENANT)
    if tenant is None or request.resources.priority is not None:
        return request
    tenants = tenants_of_run(context)
    if tenants is None:
        return request
    priority = tenants.tier_of(tenant).priority
    return replace(request, resources=request.resources.model_copy(update={"priority": priority}))


def tenants_of_run(context: dg.AssetExecutionContext) -> TenantsFile | None:
    """The tenants file; None if it cannot be read, which stops no work."""
    try:
        return load_tenants()
    except UserError as error:
        context.log.warning(f"the work continues without the tenants file: {error}")
        return None


def _submission(context: dg.AssetExecutionContext, store: StoreResource, request: WorkRequest) -> Submission | None:
    """The submission that the run works for, if any.

    Raises SubmissionPaused for one that is paused, as a run may have been launched just before. Raises UserError if the
    submission of a run in a terminal was cancelled: Dagster cannot end such a run from elsewhere, and between two
    pieces of work there is no worker to stop.
    """
    run_tags = context.run.tags
    if tags.SUBMISSION not in run_tags:
        direct = record_direct_launch(context, store.store, *pair_of(request.label)) if "|" in request.label else None
        if direct is not None:
            require_not_paused(store.store, direct)
        return direct
    if tags.TENANT not in run_tags:
        return None
    submission = find_submission(store.store, run_tags[tags.TENANT], run_tags[tags.SUBMISSION])
    if submission is not None:
        require_not_paused(store.store, submission)
    if submission is not None and tags.FOREGROUND in run_tags:
        outcome = find_outcome(store.store, submission)
        if outcome is not None and outcome.status is SubmissionStatus.CANCELLED:
            where = f"submission {submission.id}"
            raise UserError(outcome.reason, where=where, remedy="Submit the pair again if still needed.")
    return submission


def asked_gates(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext, store: StoreResource
) -> tuple[str, ...]:
    """The gates that the run's submission adds to the recipe's; empty if the run has no submission. Raises UserError if
    the submission's record is missing, as its gates are then unknown.
    """
    run_tags = context.run.tags
    if tags.SUBMISSION not in run_tags or tags.TENANT not in run_tags:
        return ()
    submission = find_submission(store.store, run_tags[tags.TENANT], run_tags[tags.SUBMISSION])
    if submission is None:
        raise UserError(
            "the run's submission is not in this store, so its gates are unknown",
            where=f"submission {run_tags[tags.SUBMISSION]}",
            remedy="Restore its record from the bucket's versions or a backup, or submit the pair again.",
        )
    return submission.gates


def common_metadata(artifact: Artifact) -> dict[str, Any]:
    """Metadata of every asset, shown below its own: when it was made, its size, its inputs and its location."""
    inputs = "\n".join(f"- {name}: `{ref.address}`" for name, ref in sorted(artifact.manifest.inputs.items()))
    return {
        "made_at": dg.MetadataValue.text(artifact.manifest.created_at),
        "size_bytes": dg.MetadataValue.int(sum(entry.size for entry in artifact.manifest.files.values())),
        "inputs": dg.MetadataValue.md(inputs or "none"),
        "address": dg.MetadataValue.text(str(artifact.address)),
        "content_digest": dg.MetadataValue.text(artifact.digest),
    }


def pair_of(partition_key: str) -> tuple[str, str]:
    """Dataset key and recipe key of a pair partition."""
    dataset, _, recipe = str(partition_key).partition("|")
    return dataset, recipe
