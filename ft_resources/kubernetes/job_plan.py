"""From a work spec and the cluster's settings to everything that a Job says, without a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ft_resources.artifacts import Address
from ft_resources.errors import UserError
from ft_resources.kubernetes.names import job_name, store_label
from ft_resources.kubernetes.s3_policy import session_policy
from ft_resources.kubernetes.settings import (
    Cache,
    GpuType,
    KubernetesSettings,
    Place,
    RunCode,
    Toleration,
    WebIdentity,
    pinned,
)
from ft_resources.outcomes import grace_s
from ft_resources.work import WorkSpec

MASTER_PORT = 29500
_SAVE_BYTES_PER_S = 50e6
"""How fast a save is written at least, before one was measured (see ``checkpoints/stops.py``)."""
_LAST_WORDS_S = 30.0
"""A pod is killed so long after its worker has ended itself."""
_EVALUATIONS = frozenset({"baseline_report", "eval_report"})


@dataclass(frozen=True, kw_only=True, slots=True)
class PodPlan:
    """One attempt's Job, resolved. Sizes in GiB, times in seconds, GPUs and memory of each node."""

    name: str
    namespace: str
    address: Address
    attempt: int
    label: str
    image: str
    module: str
    spec_location: str
    store: str
    nodes: int
    gpus: int
    gpu_resource: str
    cpus: float
    memory_gib: float
    scratch_gib: float
    shared_memory_gib: float
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]
    spot: bool
    queue: str | None
    priority_class: str
    topology: str | None
    grace_s: int
    timeout_s: int
    node_loss_s: int
    keep_finished_s: int
    service_account: str
    run_as: int
    identity: WebIdentity | None
    secret: str | None
    policy: str | None
    cache: Cache
    environment: Mapping[str, str] = field(default_factory=dict)
    asks_judges: bool = False
    judge_keys: tuple[str, ...] = ()
    judge_secret: str = ""
    run_code: RunCode | None = None


def plan_pod(
    spec: WorkSpec,
    settings: KubernetesSettings,
    *,
    spot_losses: int = 0,
    save_s: float = 0.0,
    module: str = "ft_assets.worker",
) -> PodPlan:
    """The Job of ``spec``.

    Args:
        spot_losses: earlier attempts that lost a spot node.
        save_s: the slowest save that an earlier attempt saw; 0 where none did.
        module: what the worker is.

    Raises UserError for hardware or an image that the cluster does not have.
    """
    wanted, tenant = spec.resources, spec.address.tenant
    spot = (settings.spot if wanted.spot is None else wanted.spot) and spot_losses < settings.spot_losses
    gpu = _gpu_type(settings, wanted.gpu_type) if wanted.gpus else None
    places = [settings.spot_nodes if spot else settings.on_demand, *([gpu] if gpu else [])]
    identity = settings.identity
    return PodPlan(
        name=job_name(spec.address, spec.attempt),
        namespace=settings.namespace_of(tenant),
        address=spec.address,
        attempt=spec.attempt,
        label=spec.label,
        image=_image(settings, wanted.image),
        module=module,
        spec_location=f"{spec.store_url}#{spec.attempt_path}/spec.json",
        store=store_label(spec.store_url),
        nodes=int(spec.runtime.get("nodes", 1)),
        gpus=wanted.gpus,
        gpu_resource=gpu.resource if gpu else GpuType().resource,
        cpus=settings.cpus_per_gpu * wanted.gpus if wanted.gpus else settings.cpus,
        memory_gib=wanted.memory_gib
        or (settings.memory_gib_per_gpu * wanted.gpus if wanted.gpus else settings.memory_gib),
        scratch_gib=settings.scratch_gib,
        shared_memory_gib=settings.shared_memory_gib,
        node_selector=_selector(places),
        tolerations=tuple(toleration for place in places for toleration in place.tolerations),
        spot=spot,
        queue=settings.queue_of(tenant),
        priority_class=settings.priority_classes.get(wanted.priority or settings.priority, ""),
        topology=settings.topology,
        grace_s=_grace(spec, settings, save_s),
        timeout_s=int(wanted.timeout_s or settings.run_timeout_s),
        node_loss_s=settings.node_loss_s,
        keep_finished_s=settings.keep_finished_s,
        service_account=settings.service_account_of(tenant),
        run_as=settings.run_as,
        identity=identity,
        secret=settings.secret,
        policy=session_policy(spec, identity.kms_key) if identity else None,
        cache=settings.cache,
        environment=settings.environment,
        asks_judges=bool(spec.runtime.get("judge_hosts")),
        judge_keys=_judge_keys(spec),
        judge_secret=settings.judges.secret,
        run_code=settings.run_code if spec.asset in _EVALUATIONS else None,
    )


def _judge_keys(spec: WorkSpec) -> tuple[str, ...]:
    """Names of the keys that the recipe's judges want, of those that the platform allows the tenant."""
    allowed = {key for host in spec.runtime.get("judge_hosts") or () for key in host["keys"]}
    judge = (spec.params.get("evaluation") or {}).get("judge") or {}
    return tuple(sorted(allowed & {model.get("key") for model in judge.get("models", ())}))


def _grace(spec: WorkSpec, settings: KubernetesSettings, save_s: float) -> int:
    """Seconds between the request to stop and the end of a worker whose save takes ``save_s``, or by its size."""
    expected = save_s or float(spec.runtime.get("predicted_memory_bytes") or 0) / _SAVE_BYTES_PER_S
    return int(min(max(grace_s(expected), settings.min_grace_s), settings.max_grace_s) + _LAST_WORDS_S)


def _gpu_type(settings: KubernetesSettings, name: str | None) -> GpuType:
    """The cluster's GPUs of a type; any, where a recipe names none."""
    if name is None:
        return GpuType()
    if name not in settings.gpu_types:
        known = ", ".join(sorted(settings.gpu_types)) or "none by name"
        raise UserError(
            f"the cluster has no GPUs of type {name!r}; it has: {known}",
            where="hardware.gpu_type",
            remedy="Name one that it has in a new recipe version, or ask the platform's administrators for this one.",
        )
    return settings.gpu_types[name]


def _selector(places: list[Place]) -> dict[str, str]:
    return {label: value for place in places for label, value in place.node_selector.items()}


def _image(settings: KubernetesSettings, wanted: str | None) -> str:
    """The image to run. A recipe's own runs with its tenant's credentials, so it has to be one that is allowed."""
    if wanted is None:
        return settings.image
    if not pinned(wanted):
        raise UserError(
            f"the image {wanted!r} is not named by digest",
            where="hardware.image",
            remedy="Name it as NAME@sha256:DIGEST in a new recipe version, so that it cannot change afterwards.",
        )
    repository = wanted.partition("@")[0]
    if repository not in (settings.image.partition("@")[0], *settings.image_repositories):
        raise UserError(
            f"images of {repository!r} are not allowed on this cluster",
            where="hardware.image",
            remedy="Leave hardware.image out for the platform's own, or ask its administrators to allow this one.",
        )
    return wanted
