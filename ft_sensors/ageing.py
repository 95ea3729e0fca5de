"""Lets what waits rise with time: runs in Dagster's queue, and Jobs in the cluster's (``kubernetes/ageing.py``)."""

import time
from collections.abc import Mapping
from typing import Any

import dagster as dg

from ft_assets import tags
from ft_assets.keys import DatasetKey
from ft_assets.queueing import QueuedRun, is_training, plan_tags
from ft_assets.tenants import load_tenants
from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import UserError
from ft_resources.kubernetes.ageing import kept, started
from ft_resources.kubernetes.api import ApiRefusal
from ft_resources.kubernetes.orphans import address_of, attempt_of
from ft_resources.launchers.choice import launcher_kind
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.store import Store
from ft_sensors.pace import at_most

# A tick has 60 s; what is left over is the next tick's.
_RUNS, _TAGGED, _LOOKS, _RELABELS, _REFUSALS = 2000, 200, 100, 100, 10
_TRAINED = frozenset({"checkpoint", "adapter"})


@dg.sensor(minimum_interval_seconds=at_most(60), default_status=dg.DefaultSensorStatus.RUNNING)
def ageing_sensor(
    context: dg.SensorEvaluationContext, store: StoreResource, launcher: LauncherResource
) -> dg.SkipReason:
    """Raise what has waited, tag runs that were launched by hand, and keep what is nearly done from preemption."""
    said = []
    try:
        said.append(age_runs(context.instance))
    except UserError as error:
        said.append(f"runs keep their places: {error}")
    if launcher_kind() == "kubernetes":
        try:
            cluster = launcher.launcher
            assert isinstance(cluster, KubernetesLauncher)
            text, cursor = age_jobs(store.store, cluster, context.cursor or "")
            context.update_cursor(cursor)
            said.append(text)
        except (UserError, ApiRefusal) as error:
            said.append(f"the cluster could not be looked at: {error}")
    return dg.SkipReason("; ".join(said))


def age_runs(instance: dg.DagsterInstance) -> str:
    """Tag the runs of Dagster's queue as the tenants' tiers and their waits say; what was done, in words."""
    records = instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED]), limit=_RUNS)
    runs = [run for record in records if (run := _queued(record))]
    wanted = plan_tags(sorted(runs, key=lambda run: -run.waited_s), load_tenants())
    for run_id, added in list(wanted.items())[:_TAGGED]:
        instance.add_run_tags(run_id, added)
    return f"looked at {len(records)} queued runs: {min(len(wanted), _TAGGED)} tagged anew"


def age_jobs(store: Store, cluster: KubernetesLauncher, after: str) -> tuple[str, str]:
    """Relabel the Jobs that work for the store; what was done, in words, and the last whose progress was read.

    Of Jobs that run, the progress of so many is read, those whose names come after ``after``; the rest is for later.
    """
    if not cluster.relabels:
        return "the cluster has no queue whose priorities change", ""
    jobs = sorted(cluster.jobs(store.url), key=_name)
    running = [job for job in jobs if _name(job) > after and address_of(job) and started(job) and not kept(job)]
    looked = {_name(job): _progress(store, job) for job in running[:_LOOKS]}
    # Who runs first: else who waits might rise above it and put it out before it is raised itself.
    jobs.sort(key=started, reverse=True)
    changes = cluster.plan_classes([(job, looked.get(_name(job), {})) for job in jobs])
    refused: list[str] = []
    given, up = 0, {_name(job) for job in jobs if started(job)}
    for change in changes:
        if given == _RELABELS:
            break
        if len(refused) >= _REFUSALS and f"{change.namespace}/{change.name}" in up:
            # A Kueue before 0.15 changes nobody who runs; who waits may rise all the same.
            continue
        try:
            cluster.relabel(change)
            given += 1
        except ApiRefusal as refusal:
            refused.append(f"{change.name}: {refusal}")
    text = f"looked at {len(jobs)} Jobs: {given} given another priority class"
    last = _name(running[_LOOKS - 1]) if len(running) > _LOOKS else ""
    return "; ".join([text, *([f"{len(refused)} refused, such as {refused[0]}"] if refused else [])]), last


def _queued(record: dg.RunRecord) -> QueuedRun | None:
    """A queued run as the plan wants it; None for one of no tenant."""
    run = record.dagster_run
    tenant = run.tags.get(tags.TENANT) or _tenant_of(run.tags)
    if tenant is None:
        return None
    chosen = {key.to_user_string() for key in run.asset_selection or ()}
    return QueuedRun(
        run_id=run.run_id,
        tenant=tenant,
        trains=is_training(run.job_name) or bool(chosen & _TRAINED),
        tags=run.tags,
        waited_s=max(0.0, time.time() - record.create_timestamp.timestamp()),
    )


def _tenant_of(run_tags: Mapping[str, str]) -> str | None:
    """Of a run that nobody tagged: the tenant of its dataset, by its partition."""
    try:
        return DatasetKey.parse(run_tags.get("dagster/partition", "").partition("|")[0]).tenant
    except UserError:
        return None


def _progress(store: Store, job: Mapping[str, Any]) -> dict[str, Any]:
    return Attempt(store, Address.parse(address_of(dict(job))), attempt_of(dict(job))).progress()


def _name(job: Mapping[str, Any]) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"
