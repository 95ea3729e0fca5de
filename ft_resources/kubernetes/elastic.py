"""Trainings whose number of GPUs may change (``hardware.gpus: {min, max}``): how many they get, and when that changes.

A training begins with as many as its queue has room for. One that waits for room which is gone, and one that runs on
fewer while room is idle, is asked to save and end; its next attempt gets what there is then. Who is preempted comes
back the same way.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt
from ft_resources.errors import CorruptArtifact
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import Api, jobs
from ft_resources.kubernetes.attempt_plan import plan_attempt
from ft_resources.kubernetes.flavours import Taint, amount_of
from ft_resources.kubernetes.job_plan import PodPlan
from ft_resources.kubernetes.kueue_api import list_quota, local_queue, workload_of
from ft_resources.kubernetes.objects import Object, ended, seconds
from ft_resources.kubernetes.room import Place, Room
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.kubernetes.tolerated import KEEPS_OUT, tolerates
from ft_resources.store import Store
from ft_resources.work import WorkSpec

_PATIENCE_S = 120.0
"""How long a Job waits for the room that was there when it was made."""
_SETTLED_S, _WORTH_S, _FRESH_S = 600.0, 1200.0, 600.0
"""A training grows once it has run for so long, if so much is left of it by its own recent estimate."""
_LOOKS = 100
_GIB = 2.0**30


class Elastic:
    """Decides by the settings and the queues of one cluster, as they are now."""

    def __init__(self, settings: KubernetesSettings, api: Api, clock: Callable[[], float] = time.time) -> None:
        self._settings, self._api, self._clock = settings, api, clock

    def gpus_now(self, spec: WorkSpec, attempt: Attempt) -> int:
        """The largest of the spec's sizes that its queue has room for, else the smallest; the largest without a queue,
        whose room could be known. Raises UserError as ``plan_pod`` does, LauncherRefusal, ClusterUnavailable."""
        sizes = spec.resources.gpu_sizes
        if self._settings.queue is None:
            return sizes[0]
        return self._size(spec, attempt, *self._quota(), {}) or sizes[-1]

    def resize(self, store: Store, found: Iterable[Object]) -> int:
        """Ask those of the Jobs ``found`` to end that should have another number of GPUs: all that wait for room which
        is gone, and one that may have more. For how many."""
        elastic = [job for job in found if names.GPU_SIZES in job["metadata"].get("annotations", {}) and not ended(job)]
        if not elastic:
            return 0
        room, flavours = self._quota()
        asked, grown = 0, False
        for job in sorted(elastic, key=_created)[:_LOOKS]:
            attempt, waits = _attempt(store, job), bool(job["spec"].get("suspend"))
            spec = _spec(attempt)
            ending = "deletionTimestamp" in job["metadata"] or attempt.stop_requested()
            if ending or spec is None or not spec.resources.gpu_sizes:
                continue
            if waits:
                # One that ran before is ended by its own pods.
                wanted = None if attempt.progress() else self._for_waiting(job, spec, attempt, room, flavours)
            else:
                wanted = None if grown else self._for_running(job, spec, attempt, room, flavours)
                # What this one will take is not in the queues' usage yet: the others' turn comes later.
                grown = grown or wanted is not None
            if wanted is not None:
                attempt.request_resize(wanted)
                asked += 1
            if wanted is not None and waits:
                # Nothing runs that could hear the request.
                path = jobs(job["metadata"]["namespace"], job["metadata"]["name"])
                self._api.delete(path, propagationPolicy="Background")
        return asked

    def _for_waiting(
        self, job: Object, spec: WorkSpec, attempt: Attempt, room: Room, flavours: Sequence[Object]
    ) -> int | None:
        if self._clock() - _created(job) < _PATIENCE_S:
            return None
        size = self._size(spec, attempt, room, flavours, {})
        return None if size == spec.resources.gpus else size

    def _for_running(
        self, job: Object, spec: WorkSpec, attempt: Attempt, room: Room, flavours: Sequence[Object]
    ) -> int | None:
        began, progress = seconds(job.get("status", {}).get("startTime")), attempt.progress()
        fresh = self._clock() - float(progress.get("at") or 0.0) < _FRESH_S
        left_s = float(progress.get("eta_s") or 0.0) if fresh and progress.get("phase") == "training" else 0.0
        if began is None or self._clock() - began < _SETTLED_S or left_s < _WORTH_S:
            return None
        workload = workload_of(self._api, job["metadata"]["namespace"], job)
        held = _held(workload) if workload else {}
        # Whoever waits comes before who has something.
        if not held or room.waiting(self._cluster_queue(job["metadata"]["namespace"], spec)):
            return None
        size = self._size(spec, attempt, room, flavours, held)
        return size if size is not None and size > spec.resources.gpus else None

    def _size(
        self,
        spec: WorkSpec,
        attempt: Attempt,
        room: Room,
        flavours: Sequence[Object],
        held: Mapping[Place, float],
    ) -> int | None:
        """The largest size that fits beside all others, if it gives back what it has ``held``."""
        plans = {size: plan_attempt(spec.on_gpus(size), attempt, self._settings) for size in spec.resources.gpu_sizes}
        queue = self._cluster_queue(next(iter(plans.values())).namespace, spec)
        for size, plan in plans.items():
            allowed = _allowed(plan, room.flavours(queue), flavours)
            if room.fits(queue, allowed, _wanted(plan), held):
                return size
        return None

    def _cluster_queue(self, namespace: str, spec: WorkSpec) -> str:
        found = local_queue(self._api, namespace, self._settings.queue_of(spec.address.tenant) or "")
        return str(found["spec"]["clusterQueue"]) if found else ""

    def _quota(self) -> tuple[Room, Sequence[Object]]:
        queues, cohorts, flavours = list_quota(self._api)
        return Room(queues, cohorts), flavours


def _wanted(plan: PodPlan) -> dict[str, float]:
    """What all pods of a training request."""
    devices = {plan.gpu_resource: plan.gpus, **(plan.network.resources if plan.network else {})}
    each = {"cpu": plan.cpus, "memory": plan.memory_gib * _GIB, **devices}
    return {resource: amount * plan.nodes for resource, amount in each.items()}


def _allowed(plan: PodPlan, of_queue: Sequence[str], flavours: Sequence[Object]) -> list[str]:
    """The queue's flavours that the pods may have by their node selector and tolerations, as Kueue decides it
    (https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/)."""
    specs = {each["metadata"]["name"]: each.get("spec") or {} for each in flavours}
    known = {label for name in of_queue for label in specs.get(name, {}).get("nodeLabels") or {}}
    selected = {label: value for label, value in plan.node_selector.items() if label in known}
    return [
        name
        for name in of_queue
        if selected.items() <= (specs.get(name, {}).get("nodeLabels") or {}).items()
        and all(tolerates(plan.tolerations, taint) for taint in _taints(specs.get(name, {})))
    ]


def _taints(flavour: Object) -> list[Taint]:
    found = flavour.get("nodeTaints") or ()
    return [Taint.model_validate(each) for each in found if each["effect"] in KEEPS_OUT]


def _held(workload: Object) -> dict[Place, float]:
    """What a Workload has reserved."""
    sets = workload.get("status", {}).get("admission", {}).get("podSetAssignments") or ()
    return {
        (each["flavors"][resource], resource): amount_of(amount)
        for each in sets
        for resource, amount in each.get("resourceUsage", {}).items()
    }


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
