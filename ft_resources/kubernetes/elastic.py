"""Trainings whose number of GPUs may change (``hardware.gpus: {min, max}``): how many they get, and when that changes.

A training begins with as many as its queue has room for. One that waits for room which is gone, and one that runs on
fewer while room is idle, is asked to save and end; its next attempt gets what there is then. Who is preempted comes
back the same way.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.errors import (
    ClusterUnavailable,
    CorruptArtifact,
    LauncherRefusal,
    StoreUnavailable,
    UserError,
    WorkFailed,
)
from ft_resources.kubernetes import names
from ft_resources.kubernetes.allowed import allowed, requested
from ft_resources.kubernetes.api import Api, pods
from ft_resources.kubernetes.attempt_plan import past_of
from ft_resources.kubernetes.flavours import amount_of
from ft_resources.kubernetes.job_plan import PodPlan, plan_pod
from ft_resources.kubernetes.kueue_api import list_quota, local_queue, workload_of
from ft_resources.kubernetes.objects import Object, ended, seconds
from ft_resources.kubernetes.placement import discard
from ft_resources.kubernetes.room import Place, Room
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.store import Store
from ft_resources.work import WorkSpec

_PATIENCE_S = 120.0
"""How long a Job waits for the room that was there when it was made."""
_VAIN_S, _VAIN_FOR_S = 1200.0, 6 * 3600.0
"""A Job whose room is there by the quota and that has no pods after so long asks for less: no node has its GPUs
together, or Kueue knows better. Its size is then left alone for so long."""
_SETTLED_S, _WORTH_S, _FRESH_S = 600.0, 1200.0, 600.0
"""A training grows once it has run for so long, if so much is left of it by its own recent estimate."""
_LOOKS, _EARLIER = 100, 10


class Change(NamedTuple):
    """To how many GPUs of each node; ``in_vain`` if those that it asked for were there by the quota, and never came."""

    gpus: int
    in_vain: bool = False


class Elastic:
    """Decides by the settings and the queues of one cluster, as they are now."""

    def __init__(self, settings: KubernetesSettings, api: Api, clock: Callable[[], float] = time.time) -> None:
        self._settings, self._api, self._clock = settings, api, clock

    def gpus_now(self, spec: WorkSpec, attempt: Attempt) -> int:
        """The largest of the spec's sizes that its queue has room for, else the smallest; the largest without a queue,
        whose room could be known. Raises UserError as ``plan_pod`` does, and where reading the queues is not allowed,
        ClusterUnavailable."""
        sizes = spec.resources.gpu_sizes
        if self._settings.queue is None:
            return sizes[0]
        try:
            plan = self._largest(spec, attempt, *self._quota(), {})
            return plan.gpus if plan else sizes[-1]
        except LauncherRefusal as refusal:
            raise WorkFailed(
                f"the room in its queue cannot be read ({refusal})",
                where="hardware.gpus",
                remedy="Ask the platform's administrators for the rights that elastic trainings need "
                "(docs/explanation/kubernetes.md), or write one number in a new recipe version.",
            ) from refusal

    def resize(self, store: Store, found: Iterable[Object]) -> int:
        """Ask those of the Jobs ``found`` to end that should have another number of GPUs: all that wait for room which
        is gone, and one that may have more. For how many."""
        elastic = [job for job in found if names.GPU_SIZES in job["metadata"].get("annotations", {}) and not ended(job)]
        if not elastic:
            return 0
        elastic.sort(key=_created)
        # Where there are more than a tick looks at, each begins with others.
        first = int(self._clock() // 60.0) * _LOOKS % len(elastic) if len(elastic) > _LOOKS else 0
        room, flavours = self._quota()
        asked, grown = 0, False
        for job in [*elastic[first:], *elastic[:first]][:_LOOKS]:
            attempt = _attempt(store, job)
            spec = _spec(attempt)
            if "deletionTimestamp" in job["metadata"] or spec is None or not spec.resources.gpu_sizes:
                continue
            waits = bool(job["spec"].get("suspend")) or not _ready(job)
            # One that ran before is ended by its own pods, which hear the request.
            idle = waits and not attempt.progress()
            if attempt.stop_requested():
                if idle:
                    # Who asked for its end died, or was not answered, before it could remove the Job.
                    discard(self._api, attempt, job, "none", self._clock())
                continue
            try:
                if waits:
                    wanted = self._for_waiting(job, spec, attempt, room, flavours) if idle else None
                else:
                    wanted = None if grown else self._for_running(job, spec, attempt, room, flavours)
            except (StoreUnavailable, ClusterUnavailable):
                raise
            except UserError:
                # The settings no longer have what it was launched with. It stays as it is, and the others have a turn.
                continue
            if wanted is None:
                continue
            attempt.request_resize(wanted.gpus, in_vain=wanted.in_vain)
            asked += 1
            if waits:
                discard(self._api, attempt, job, "none", self._clock())
            # What this one will take is not in the queues' usage yet: the others' turn comes later.
            grown = grown or not waits
        return asked

    def _for_waiting(
        self, job: Object, spec: WorkSpec, attempt: Attempt, room: Room, flavours: Sequence[Object]
    ) -> Change | None:
        """Fewer only: a new Job loses its place, and where there is room for more this one is about to run."""
        admitted, gpus = not job["spec"].get("suspend"), spec.resources.gpus
        began = seconds(job.get("status", {}).get("startTime")) if admitted else None
        waited_s = self._clock() - (began or _created(job))
        smaller = [size for size in spec.resources.gpu_sizes if size < gpus]
        if waited_s < _PATIENCE_S or not smaller:
            return None
        if self._placed(job) if admitted else self._held(job):
            # Its pods fetch what they need; or nodes are being made for it.
            return None
        # An admitted one's own request is part of the usage.
        plan = None if admitted else self._largest(spec, attempt, room, flavours, {})
        if admitted or (plan and plan.gpus >= gpus):
            return Change(smaller[0], in_vain=True) if waited_s >= _VAIN_S else None
        return Change(plan.gpus) if plan else None

    def _for_running(
        self, job: Object, spec: WorkSpec, attempt: Attempt, room: Room, flavours: Sequence[Object]
    ) -> Change | None:
        if spec.resources.gpus == spec.resources.gpu_sizes[0]:
            return None
        began, progress = seconds(job.get("status", {}).get("startTime")), attempt.progress()
        fresh = self._clock() - float(progress.get("at") or 0.0) < _FRESH_S
        left_s = float(progress.get("eta_s") or 0.0) if fresh and progress.get("phase") == "training" else 0.0
        if began is None or self._clock() - began < _SETTLED_S or left_s < _WORTH_S:
            return None
        held = self._held(job)
        plan = self._largest(spec, attempt, room, flavours, held) if held else None
        if plan is None or plan.gpus <= spec.resources.gpus:
            return None
        # Whoever waits comes before who has something.
        queue = self._cluster_queue(spec)
        waiting = room.waiting(queue, self._may_have(plan, room, queue, flavours), [plan.gpu_resource])
        return None if waiting else Change(plan.gpus)

    def _largest(
        self,
        spec: WorkSpec,
        attempt: Attempt,
        room: Room,
        flavours: Sequence[Object],
        held: Mapping[Place, float],
    ) -> PodPlan | None:
        """The Job of the largest size that fits beside all others, if it gives back what it has ``held``."""
        past, queue = past_of(attempt)._asdict(), self._cluster_queue(spec)
        for size in self._sizes(spec, attempt):
            plan = plan_pod(spec.on_gpus(size), self._settings, **past)
            if room.fits(queue, self._may_have(plan, room, queue, flavours), requested(plan), held):
                return plan
        return None

    def _may_have(self, plan: PodPlan, room: Room, queue: str, flavours: Sequence[Object]) -> list[str]:
        return [each for group in room.flavours(queue) for each in allowed(plan, group, flavours)]

    def _sizes(self, spec: WorkSpec, attempt: Attempt) -> Sequence[int]:
        """The spec's sizes, without those for which an earlier attempt waited in vain not long ago."""
        earlier = [each for each in attempts_at(attempt.store, attempt.address) if each.number < attempt.number]
        lately = self._clock() - _VAIN_FOR_S
        vain = [each for each in earlier[-_EARLIER:] if (each.waited_in_vain_at() or 0.0) > lately]
        most = min((each.resources.gpus for each in map(_spec, vain) if each), default=inf)
        sizes = spec.resources.gpu_sizes
        return [size for size in sizes if size < most] or sizes[-1:]

    def _placed(self, job: Object) -> bool:
        """Whether each pod of a Job has a node."""
        found = self._api.items(pods(job["metadata"]["namespace"]), names.of_job(job["metadata"]["name"]))
        placed = [pod for pod in found if pod["spec"].get("nodeName")]
        return len(placed) >= job["spec"].get("completions", 1)

    def _held(self, job: Object) -> dict[Place, float]:
        """What is reserved for a Job in its queue."""
        workload = workload_of(self._api, job["metadata"]["namespace"], job) or {}
        sets = workload.get("status", {}).get("admission", {}).get("podSetAssignments") or ()
        return {
            (each["flavors"][resource], resource): amount_of(amount)
            for each in sets
            for resource, amount in each.get("resourceUsage", {}).items()
            # Kueue assigns none to a resource of which nothing is requested.
            if resource in each["flavors"]
        }

    def _cluster_queue(self, spec: WorkSpec) -> str:
        tenant = spec.address.tenant
        found = local_queue(self._api, self._settings.namespace_of(tenant), self._settings.queue_of(tenant) or "")
        return str(found["spec"]["clusterQueue"]) if found else ""

    def _quota(self) -> tuple[Room, Sequence[Object]]:
        queues, cohorts, flavours = list_quota(self._api)
        return Room(queues, cohorts), flavours


def _ready(job: Object) -> bool:
    """Whether all its pods run."""
    return bool(job.get("status", {}).get("ready", 0) >= job["spec"].get("completions", 1))


def _created(job: Object) -> float:
    return seconds(job["metadata"].get("creationTimestamp")) or 0.0


def _attempt(store: Store, job: Object) -> Attempt:
    address = Address.parse(job["metadata"]["annotations"][names.ADDRESS])
    return Attempt(store, address, int(job["metadata"]["labels"][names.ATTEMPT]))


def _spec(attempt: Attempt) -> WorkSpec | None:
    """What the attempt was launched with; None if that cannot be read, and is then left alone."""
    try:
        return attempt.spec()
    except CorruptArtifact:
        return None
