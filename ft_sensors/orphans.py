"""Looks for Jobs on the cluster that nobody waits for, and for attempts that have no worker any more, and brings each
to its end (see ``kubernetes/orphans.py`` and ``metering/abandoned.py``)."""

import json
import time
from dataclasses import replace
from typing import Any

import dagster as dg

from ft_assets.metering.abandoned import close_abandoned
from ft_assets.submissions.sharing import needed_by_others
from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.execution import Execution
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import ApiRefusal
from ft_resources.kubernetes.orphans import Orphan, Standing, address_of, attempt_of, note_unwanted, plan_orphans
from ft_resources.launchers.choice import launcher_kind
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import POLICIES, Outcome, Refund
from ft_resources.store import Store

ACTOR = "orphans_sensor"
_MOST = 20
"""A tick has 60 s; what is left is for the next."""
_ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dg.sensor(minimum_interval_seconds=120, default_status=dg.DefaultSensorStatus.RUNNING)
def orphans_sensor(
    context: dg.SensorEvaluationContext, store: StoreResource, launcher: LauncherResource
) -> dg.SkipReason:
    """Collect, close, end or stop Jobs of the cluster that no run waits for, and close attempts without a worker."""
    partitions, going_on = active_partitions(context.instance), set[tuple[str, int]]()
    said = "workers run on this machine, where there are no Jobs"
    try:
        cluster = launcher.launcher if launcher_kind() == "kubernetes" else LocalLauncher()
        if isinstance(cluster, KubernetesLauncher):
            jobs = cluster.jobs(store.store.url)
            going_on = {(address_of(job), attempt_of(job)) for job in jobs}
            standings = [stand(store.store, job, partitions) for job in jobs]
            now = time.time()
            since = note_unwanted(standings, _noted(context.cursor), now)
            context.update_cursor(json.dumps(since))
            orphans = plan_orphans([_since(each, since, now) for each in standings], now)
            for orphan in orphans[:_MOST]:
                what = f"{orphan.deed}: attempt {orphan.attempt} at {orphan.address}"
                try:
                    deal_with(store.store, cluster, orphan)
                    context.log.info(what)
                except ApiRefusal as refusal:
                    # Of one tenant's namespace, perhaps: the others' Jobs are still to be seen to.
                    context.log.warning(f"{what} is refused ({refusal})")
            said = f"looked at {len(standings)} Jobs: {len(orphans)} that nobody waits for"
        closed = close_abandoned(
            Execution(store=store.store, launcher=cluster), going_on, partitions, time.time(), most=_MOST
        )
    except (UserError, ApiRefusal) as error:
        return dg.SkipReason(f"the cluster could not be looked at: {error}")
    for path in closed:
        context.log.info(f"closed {path}: it has no worker")
    return dg.SkipReason("; ".join([said, *([f"{len(closed)} attempts without a worker closed"] if closed else [])]))


def _noted(cursor: str | None) -> dict[str, float]:
    """Since when Jobs have been seen to be wanted by nobody; a hint, so anything odd is nothing."""
    try:
        found = json.loads(cursor or "{}")
        return {str(uid): float(at) for uid, at in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def _since(standing: Standing, since: dict[str, float], now: float) -> Standing:
    return replace(standing, unwanted_s=now - since.get(str(standing.job["metadata"]["uid"]), now))


def active_partitions(instance: dg.DagsterInstance) -> set[str]:
    """Partition keys of all runs that are queued or under way."""
    runs = instance.get_runs(filters=dg.RunsFilter(statuses=_ACTIVE))
    return {run.tags["dagster/partition"] for run in runs if "dagster/partition" in run.tags}


def stand(store: Store, job: dict[str, Any], partitions: set[str]) -> Standing:
    """A Job and what the store says of it."""
    address = address_of(job)
    if not address:
        return Standing(job=job, closed_at=None, collected=False, wanted=True)
    attempt = Attempt(store, Address.parse(address), attempt_of(job))
    closed_at, label = _closed_at(attempt), job["metadata"]["annotations"].get(names.LABEL, "")
    return Standing(
        job=job,
        closed_at=closed_at,
        collected=closed_at is not None and _collected(attempt),
        wanted=closed_at is not None or _wanted(store, attempt, label, partitions),
    )


def deal_with(store: Store, cluster: KubernetesLauncher, orphan: Orphan) -> None:
    """Do what the plan says; each deed may be done again."""
    attempt = Attempt(store, Address.parse(orphan.address), orphan.attempt)
    if orphan.deed == "collect":
        cluster.clean_up(attempt)
    elif orphan.deed == "close":
        execution = Execution(store=store, launcher=cluster)
        # Finds out how it ended; the Job is there, so the cluster knows.
        cluster.state(attempt)
        execution.bury(attempt)
    elif orphan.deed == "end":
        cluster.discard(attempt, _refund(attempt))
    else:
        attempt.request_stop(ACTOR)
        cluster.discard(attempt, "none")
        attempt.record_ending(Outcome.CANCELLED)


def _closed_at(attempt: Attempt) -> float | None:
    """When its end was put on record; for a record that cannot be read long ago, as no run waits for more."""
    try:
        return attempt.closed_at()
    except CorruptArtifact:
        return 0.0


def _collected(attempt: Attempt) -> bool:
    """Whether there is a record of its place, which is never written anew."""
    try:
        return attempt.place() is not None
    except CorruptArtifact:
        return True


def _refund(attempt: Attempt) -> Refund:
    """By how it ended; a worker whose word on that cannot be read gets none."""
    try:
        ending = attempt.ending()
    except CorruptArtifact:
        return "none"
    return POLICIES[ending.outcome].refund if ending else "none"


def _wanted(store: Store, attempt: Attempt, label: str, partitions: set[str]) -> bool:
    """Whether a run or an open submission needs what the attempt makes; where that is not known, it does."""
    if label in partitions:
        return True
    try:
        return needed_by_others(store, attempt.address, None)
    except KeyError:
        return True
