"""Kueue's queue, with priorities that change with time: applies the plan of ``ageing.py`` to the cluster."""

from collections.abc import Callable, Mapping
from typing import Any

from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt
from ft_resources.errors import LauncherRefusal
from ft_resources.jobs import Job
from ft_resources.kubernetes import names
from ft_resources.kubernetes.ageing import Relabel, kept, plan_classes, started
from ft_resources.kubernetes.api import Api, ApiRefusal, jobs
from ft_resources.kubernetes.elastic import Elastic
from ft_resources.kubernetes.kueue_api import list_priority_classes
from ft_resources.kubernetes.objects import Object, ended, seconds
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.store import Store

# A sensor's tick has 60 s; the next tick continues.
_LOOKS, _RELABELS, _REFUSALS = 100, 100, 10


class KueueQueue:
    """A ``Queue`` (``launchers/base.py``) of WorkloadPriorityClasses."""

    def __init__(self, settings: KubernetesSettings, api: Api, clock: Callable[[], float]) -> None:
        self._settings, self._api, self._clock = settings, api, clock

    def age(self, store: Store, after: str = "") -> tuple[str, str, int]:
        """Relabel the store's Jobs, and resize the elastic ones. ``after`` and the second result are namespace/name."""
        found = sorted(list_jobs(self._api, store.url), key=_name)
        running = [job for job in found if _name(job) > after and started(job) and not kept(job)]
        looked = {_name(job): _progress(store, job) for job in running[:_LOOKS]}
        # Running Jobs first: otherwise a waiting one might rise above a running one and preempt it before that rises.
        found.sort(key=started, reverse=True)
        known = {each["metadata"]["name"] for each in list_priority_classes(self._api)}
        seen = [(job, looked.get(_name(job), {})) for job in found]
        resized = Elastic(self._settings, self._api, self._clock).resize(store, found)
        changes = plan_classes(seen, self._settings, known, self._clock())
        refused: list[str] = []
        given, up = 0, {_name(job) for job in found if started(job)}
        for change in changes:
            if given == _RELABELS:
                break
            if len(refused) >= _REFUSALS and f"{change.namespace}/{change.name}" in up:
                # Kueue before 0.15 cannot change running Jobs; waiting ones may rise anyway.
                continue
            try:
                self._relabel(change)
                given += 1
            except LauncherRefusal as refusal:
                refused.append(f"{change.name}: {refusal}")
        text = f"checked {len(found)} Jobs: {given} given another priority class"
        last = _name(running[_LOOKS - 1]) if len(running) > _LOOKS else ""
        said = [text, *([f"{resized} get another number of GPUs"] if resized else [])]
        said += [f"{len(refused)} refused, such as {refused[0]}"] if refused else []
        return "; ".join(said), last, given + resized

    def _relabel(self, change: Relabel) -> None:
        """Give a Job its new class; a Job that is gone is ignored."""
        try:
            self._api.patch(jobs(change.namespace, change.name), change.patch)
        except ApiRefusal as refusal:
            if refusal.code != 404:
                raise


def list_jobs(api: Api, store_url: str) -> list[Object]:
    """All Jobs that work for the store, of all tenants."""
    label = f"{names.MANAGED},{names.STORE}={names.store_label(store_url)}"
    return list(api.items(jobs(""), {"labelSelector": label}))


def job_of(found: Mapping[str, Any]) -> Job:
    """A Job of the API as launchers show it."""
    metadata = found["metadata"]
    annotations = metadata.get("annotations", {})
    return Job(
        uid=str(metadata.get("uid", "")),
        address=str(annotations.get(names.ADDRESS, "")),
        attempt=int(metadata["labels"][names.ATTEMPT]),
        label=str(annotations.get(names.LABEL, "")),
        created_at=seconds(metadata.get("creationTimestamp")),
        ended=ended(dict(found)),
        removing="deletionTimestamp" in metadata,
    )


def _progress(store: Store, found: Mapping[str, Any]) -> dict[str, Any]:
    job = job_of(found)
    return Attempt(store, Address.parse(job.address), job.attempt).progress() if job.address else {}


def _name(job: Mapping[str, Any]) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"
