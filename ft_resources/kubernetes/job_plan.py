"""Resolve a work spec and the cluster's settings into everything that a Job needs. Pure: no cluster is asked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ft_resources.errors import UserError
from ft_resources.kubernetes.dagster_pod import Config, check, places_of, sizes_of
from ft_resources.kubernetes.images import pinned
from ft_resources.kubernetes.names import job_name
from ft_resources.kubernetes.places import GpuType, Near, Network, Toleration
from ft_resources.kubernetes.s3_policy import session_policy
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.kubernetes.worker_settings import RunCode
from ft_resources.outcomes import grace_s
from ft_resources.work import WorkSpec

MASTER_PORT = 29500
_SAVE_BYTES_PER_S = 50e6
"""Assumed minimum speed of writing a save, until one was measured (see ``workers/training/stop_requests.py``)."""
_LAST_WORDS_S = 30.0
"""Seconds between the worker's own deadline and the kill of its pod."""
_EVALUATIONS = frozenset({"baseline_report", "eval_report"})


@dataclass(frozen=True, kw_only=True, slots=True)
class PodPlan:
    """One attempt's Job: its spec, the cluster's settings, and what follows from both.

    Sizes in GiB, times in seconds, CPUs and memory of each node. ``asked`` is what Dagster's configuration adds.
    """

    spec: WorkSpec
    settings: KubernetesSettings
    name: str
    namespace: str
    image: str
    module: str
    nodes: int
    gpu_resource: str
    gpu_shared_by: int | None
    network: Network | None
    topology: Near | None
    shared_memory_gib: float
    cpus: float
    memory_gib: float
    node_selector: Mapping[str, str]
    avoid: tuple[str, ...]
    tolerations: tuple[Toleration, ...]
    spot: bool
    queue: str | None
    priority_class: str
    grace_s: int
    policy: str | None
    waits_since: float | None
    judge_keys: tuple[str, ...]
    run_code: RunCode | None
    asked: Config

    @property
    def gpus(self) -> int:
        return self.spec.resources.gpus


def plan_pod(
    spec: WorkSpec,
    settings: KubernetesSettings,
    *,
    spot_losses: int = 0,
    avoid: Iterable[str] = (),
    save_s: float = 0.0,
    waits_since: float | None = None,
    module: str = "ft_assets.worker",
) -> PodPlan:
    """The Job of ``spec``.

    Args:
        spot_losses: number of earlier attempts that lost a spot node.
        avoid: names of nodes that earlier attempts found not well.
        save_s: seconds of the slowest save in earlier attempts; 0 if there was none.
        waits_since: when a Job that this one replaces began to wait (seconds since the epoch); None: it is the first.
        module: the worker's module.

    Raises UserError for hardware or an image that the cluster does not have, and for a field of Dagster's configuration
    that a worker's pod may not have.
    """
    wanted, tenant = spec.resources, spec.address.tenant
    spot = (settings.spot if wanted.spot is None else wanted.spot) and spot_losses < settings.spot_losses
    nodes = int(spec.runtime.get("nodes", 1))
    gpu = _gpu_type(settings, wanted.gpu_type, nodes) if wanted.gpus else GpuType()
    places = [settings.spot_nodes if spot else settings.on_demand, gpu]
    check(wanted.pod, settings.from_dagster)
    cpus, memory_gib = sizes_of(wanted.pod)
    labels, tolerated = places_of(wanted.pod, settings.from_dagster)
    return PodPlan(
        spec=spec,
        settings=settings,
        name=job_name(spec.address, spec.attempt),
        namespace=settings.namespace_of(tenant),
        image=_image(settings, spec.asset, wanted.image),
        module=module,
        nodes=nodes,
        gpu_resource=gpu.resource,
        gpu_shared_by=gpu.shared_by,
        network=gpu.network if nodes > 1 else None,
        topology=gpu.topology,
        shared_memory_gib=_shared_memory_gib(settings, gpu, memory_gib or settings.memory_gib_of(wanted)),
        cpus=cpus or settings.cpus_of(wanted),
        memory_gib=memory_gib or settings.memory_gib_of(wanted),
        avoid=tuple(dict.fromkeys(avoid)),
        node_selector={**labels, **{label: value for place in places for label, value in place.node_selector.items()}},
        tolerations=(*(toleration for place in places for toleration in place.tolerations), *tolerated),
        spot=spot,
        queue=settings.queue_of(tenant),
        priority_class=settings.priority_classes.get(wanted.priority or settings.priority, ""),
        grace_s=_grace(spec, settings, save_s),
        policy=session_policy(spec, settings.identity.kms_key) if settings.identity else None,
        waits_since=waits_since,
        judge_keys=_judge_keys(spec),
        run_code=settings.run_code if spec.asset in _EVALUATIONS else None,
        asked=wanted.pod,
    )


def _judge_keys(spec: WorkSpec) -> tuple[str, ...]:
    """Names of the API keys that the recipe's judges need, among those that the tenant may use."""
    allowed = {key for host in spec.runtime.get("judge_hosts") or () for key in host["keys"]}
    judge = (spec.params.get("evaluation") or {}).get("judge") or {}
    return tuple(sorted(allowed & {model.get("key") for model in judge.get("models", ())}))


def _grace(spec: WorkSpec, settings: KubernetesSettings, save_s: float) -> int:
    """Grace period in seconds for a worker whose save takes ``save_s``; estimated from size if 0."""
    expected = save_s or float(spec.runtime.get("predicted_memory_bytes") or 0) / _SAVE_BYTES_PER_S
    return int(min(max(grace_s(expected), settings.min_grace_s), settings.max_grace_s) + _LAST_WORDS_S)


def _shared_memory_gib(settings: KubernetesSettings, gpu: GpuType, memory: float) -> float:
    """Size of /dev/shm, which is part of a pod's memory."""
    size = gpu.shared_memory_gib
    if size is None:
        return settings.shared_memory_gib
    if size >= memory:
        raise UserError(
            f"the worker has {memory:g} GiB of memory, and its /dev/shm would have {size:g} GiB of it",
            where="hardware.memory_gib",
            remedy="Request more memory in a new recipe version, or ask the platform's administrators to lower "
            "shared_memory_gib of the GPU type.",
        )
    return size


def _gpu_type(settings: KubernetesSettings, name: str | None, nodes: int) -> GpuType:
    """The cluster's GPUs of the recipe's type; any type if the recipe names none."""
    if name is None:
        networks = sorted(each for each, gpu in settings.gpu_types.items() if gpu.network)
        if nodes > 1 and networks:
            raise UserError(
                f"{nodes} nodes without a GPU type would exchange gradients without the network of {networks[0]}",
                where="hardware.gpu_type",
                remedy=f"Name a type in a new recipe version, such as {networks[0]}.",
            )
        return _any_gpu(settings)
    if name not in settings.gpu_types:
        known = ", ".join(sorted(settings.gpu_types)) or "none by name"
        raise UserError(
            f"the cluster has no GPUs of type {name!r}; it has: {known}",
            where="hardware.gpu_type",
            remedy="Name one of these in a new recipe version, or ask the platform's administrators for this one.",
        )
    return settings.gpu_types[name]


def _any_gpu(settings: KubernetesSettings) -> GpuType:
    """GPUs of whichever type the queue has: without labels, and with every type's tolerations, as its taint would keep
    the Job from a flavour that has room. A Job is either for flavours with a topology or for those without, so it asks
    for one only where all types do."""
    resource = GpuType().resource
    types = [each for each in settings.gpu_types.values() if each.resource == resource]
    tolerations = dict.fromkeys(toleration for each in types for toleration in each.tolerations)
    asked = [each.topology for each in types]
    same = asked[0] if asked and all(each == asked[0] for each in asked) else None
    return GpuType(tolerations=tuple(tolerations), topology=same)


def _image(settings: KubernetesSettings, asset: str, wanted: str | None) -> str:
    """The image to run: the recipe's own, else the settings' for this kind of work. A recipe's own image gets the
    tenant's credentials, so it must be on the allow list."""
    if wanted is None:
        return settings.images.get(asset, settings.image)
    if not pinned(wanted):
        raise UserError(
            f"the image {wanted!r} is not named by digest",
            where="hardware.image",
            remedy="Name it as NAME@sha256:DIGEST in a new recipe version, so that it cannot change.",
        )
    repository = wanted.partition("@")[0]
    if repository not in (settings.image.partition("@")[0], *settings.image_repositories):
        raise UserError(
            f"images of {repository!r} are not allowed on this cluster",
            where="hardware.image",
            remedy="Leave hardware.image out to use the platform's image, or ask its administrators to allow this one.",
        )
    return wanted
