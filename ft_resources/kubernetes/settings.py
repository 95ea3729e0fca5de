"""The administrators' cluster settings: one strict YAML file, named by ``FT_KUBERNETES``."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from ft_resources.errors import UserError
from ft_resources.kubernetes.egress import Egress, Egresses, Judges, Texts
from ft_resources.kubernetes.from_dagster import FromDagster
from ft_resources.kubernetes.images import Image
from ft_resources.kubernetes.places import GpuType, Place
from ft_resources.kubernetes.s3_policy import WORKED
from ft_resources.kubernetes.warm_settings import Warm, warm_name
from ft_resources.kubernetes.worker_settings import IN_PATTERN, Cache, RunCode, WebIdentity, per_tenant
from ft_resources.outcomes import STOP_GRACE_S
from ft_resources.strict import nearest
from ft_resources.strict_model import StrictModel
from ft_resources.work import Priority, Resources

DAY_S = 24 * 3600.0
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
# Tenant names have at most 40 characters, names in the API 63.
_MAX_TENANT, _MAX_NAME = 40, 63

_CLASSES: dict[Priority, str] = {
    "production": "ft-production",
    "batch": "ft-batch",
    "interactive": "ft-interactive",
}


def _known_kind(kind: str) -> str:
    if kind not in WORKED:
        raise ValueError(f"should be a kind of work: {nearest(kind, [*WORKED])}")
    return kind


def _name_pattern(pattern: str) -> str:
    filled = pattern.replace(IN_PATTERN, "x" * _MAX_TENANT)
    if not _LABEL.fullmatch(filled) or len(filled) > _MAX_NAME:
        raise ValueError(
            "should be lower-case letters, digits and '-', "
            f"at most {_MAX_NAME} characters with a tenant of {_MAX_TENANT}"
        )
    return pattern


Kind = Annotated[str, AfterValidator(_known_kind)]
NamePattern = Annotated[str, AfterValidator(_name_pattern)]
Seconds = Annotated[float, Field(gt=0.0)]


class Ageing(StrictModel):
    """How priorities change with time (``ageing.py``)."""

    every_hours: float = Field(
        4.0, gt=0.0, description="Hours in the queue after which the priority rises by one step."
    )
    keep_from: float = Field(
        0.8, gt=0.0, le=1.0, description="Share of the expected duration after which work is not preempted."
    )


class KubernetesSettings(StrictModel):
    """The whole file. A tenant's namespace, service account and queue are made from patterns with ``{tenant}``."""

    # Where earlier versions had a key that is elsewhere now.
    FOREIGN_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({"topology": "gpu_types.….topology: {level: …}"})

    image: Image = Field(description="The platform's worker image, by digest.")
    images: dict[Kind, Image] = Field(
        default_factory=dict,
        description="Worker images for individual kinds of work, by digest, such as quantized_model, if its packages "
        "conflict with others. They must include the platform.",
    )
    image_repositories: Texts = Field(
        (), description="Further repositories that a recipe's image may come from, such as registry.example/ft."
    )
    namespace: Annotated[NamePattern, AfterValidator(per_tenant)] = Field(
        "ft-{tenant}", description="Namespace of a tenant."
    )
    service_account: NamePattern = Field("ft-worker", description="Service account of a tenant's workers.")
    queue: NamePattern | None = Field(
        None,
        description="Kueue LocalQueue in a tenant's namespace; null: the cluster has no Kueue, Jobs start at once.",
    )
    priority_classes: dict[Priority, str] = Field(
        default_factory=lambda: dict(_CLASSES),
        description="Kueue WorkloadPriorityClass of each priority.",
    )
    priority: Priority = Field("batch", description="Priority of work that does not request one.")
    ageing: Ageing | None = Field(
        Ageing(), description="Ageing of priorities, if the cluster has the classes; null: none."
    )
    gpu_types: dict[str, GpuType] = Field(
        default_factory=dict, description="GPUs of the cluster, by type as recipes name it, such as H100."
    )
    keep_warm: dict[str, Warm] = Field(
        default_factory=dict, description="Warm nodes kept ready for work, by GPU type ([how](../how-to/warm.md))."
    )
    on_demand: Place = Field(Place(), description="Labels and taints of on-demand nodes.")
    spot_nodes: Place = Field(Place(), description="Labels and taints of spot nodes.")
    spot: bool = Field(False, description="Whether work runs on spot nodes by default.")
    spot_losses: int = Field(
        2, ge=1, description="Number of lost spot nodes after which the next attempt runs on demand."
    )
    cpus: float = Field(4.0, gt=0.0, description="CPUs of a worker without GPUs.")
    memory_gib: float = Field(16.0, gt=0.0, description="Memory of a worker without GPUs, in GiB.")
    cpus_per_gpu: float = Field(8.0, gt=0.0, description="CPUs per GPU.")
    memory_gib_per_gpu: float = Field(96.0, gt=0.0, description="Host memory per GPU, in GiB.")
    scratch_gib: float = Field(100.0, gt=0.0, description="Scratch disk of a worker, in GiB.")
    shared_memory_gib: float = Field(8.0, gt=0.0, description="/dev/shm of a worker, in GiB; part of its memory.")
    cache: Cache = Field(Cache(), description="Volume for downloaded inputs.")
    identity: WebIdentity | None = Field(None, description="Web identity for the store; null: see secret.")
    secret: str | None = Field(
        None, min_length=1, description="Secret in each tenant's namespace with the store's credentials as variables."
    )
    environment: dict[str, str] = Field(
        default_factory=dict, description="Further environment variables of workers, such as AWS_REGION; no secrets."
    )
    from_dagster: FromDagster = Field(
        FromDagster(),
        description="Fields that Dagster's configuration may add to workers' pods ([how](../how-to/dagster-k8s.md)).",
    )
    store_egress: Egresses = Field((Egress(),), description="Network addresses of the store and its credentials.")
    judges: Judges = Field(Judges(), description="Network access of evaluations to judges behind endpoints.")
    run_code: RunCode | None = Field(
        None, description="Sandbox for programs written by a model in evaluations; null: such programs are not run."
    )
    control_namespace: str = Field(
        "ft-system", min_length=1, description="Namespace of the control plane; not available to tenants."
    )
    monitoring_namespace: str = Field(
        "", description="Namespace of the Prometheus that scrapes trainings at port 9464; empty: none."
    )
    dns_namespace: str = Field("kube-system", min_length=1, description="Namespace of the cluster's DNS.")
    run_as: int = Field(10001, ge=1, description="User and group that workers run as.")
    min_grace_s: Seconds = Field(STOP_GRACE_S, description="Minimum grace period for saving and ending, in seconds.")
    max_grace_s: Seconds = Field(3600.0, description="Maximum grace period for saving and ending, in seconds.")
    run_timeout_s: Seconds = Field(7 * DAY_S, description="Default time limit of an attempt, in seconds.")
    queue_timeout_s: Seconds = Field(7 * DAY_S, description="Time limit for an attempt's pods to start, in seconds.")
    image_pull_timeout_s: Seconds = Field(
        300.0, description="Time until a failing image pull counts as an error, in seconds."
    )
    node_loss_s: int = Field(60, ge=0, description="Seconds after which the pods of a lost node count as gone.")
    keep_finished_s: int = Field(
        24 * 3600, ge=60, description="Time that the cluster keeps a finished Job, in seconds."
    )
    context: str | None = Field(None, min_length=1, description="Context of the kubeconfig; null: the current one.")

    @model_validator(mode="after")
    def _turns_are_named_so(self) -> "KubernetesSettings":
        for name, gpu in self.gpu_types.items():
            if gpu.shared_by and not name.endswith(f"-1of{gpu.shared_by}"):
                raise ValueError(
                    f"gpu_types.{name} should end with -1of{gpu.shared_by}, by which estimates know its memory"
                )
        return self

    @model_validator(mode="after")
    def _one_way_to_the_store(self) -> "KubernetesSettings":
        if self.identity and self.secret:
            raise ValueError("identity and secret are alternatives; keep one")
        if self.max_grace_s < self.min_grace_s:
            raise ValueError("max_grace_s is less than min_grace_s")
        return self

    @model_validator(mode="after")
    def _warm_nodes_are_of_use(self) -> "KubernetesSettings":
        named: dict[str, str] = {}
        for name in self.keep_warm:
            if (other := named.setdefault(warm_name(name), name)) != name:
                raise ValueError(
                    f"keep_warm.{other} and keep_warm.{name} would be one Deployment, {warm_name(name)}: rename one of "
                    "the types"
                )
            if name not in self.gpu_types:
                raise ValueError(f"keep_warm.{name} should be a type of gpu_types: {nearest(name, [*self.gpu_types])}")
            if self.gpu_types[name].topology:
                # https://github.com/kubernetes-sigs/kueue/issues/9992
                raise ValueError(
                    f"keep_warm.{name} and gpu_types.{name}.topology are alternatives: with a topology, Kueue counts "
                    "the GPUs of warm nodes as taken, and would admit nothing to them"
                )
        if self.keeps_bases and self.cache.kind != "host-path":
            raise ValueError(
                "keep_warm names bases, which need cache: {kind: host-path}; without bases it keeps nodes and image"
            )
        return self

    @property
    def keeps_bases(self) -> bool:
        """Whether nodes have bases for all tenants."""
        return any(each.bases for each in self.keep_warm.values())

    def namespace_of(self, tenant: str) -> str:
        """A tenant's namespace. Raises UserError if that is the control plane's or the cluster's own."""
        found = self.namespace.replace(IN_PATTERN, tenant)
        if found in (self.control_namespace, self.dns_namespace, "default") or found.startswith("kube-"):
            raise UserError(
                f"the namespace of tenant {tenant!r} would be {found}, which belongs to the platform or the cluster",
                where="namespace of the cluster's settings",
                remedy="Give the tenant another name, or `namespace` another pattern, such as ft-t-{tenant}.",
            )
        return found

    def memory_gib_of(self, wanted: Resources) -> float:
        """Host memory of each node of a worker that requests ``wanted``, in GiB."""
        if wanted.memory_gib or not wanted.gpus:
            return wanted.memory_gib or self.memory_gib
        return wanted.gpus * (self._type_of(wanted).memory_gib_per_gpu or self.memory_gib_per_gpu)

    def cpus_of(self, wanted: Resources) -> float:
        """CPUs of each node of a worker that requests ``wanted``."""
        return wanted.gpus * (self._type_of(wanted).cpus_per_gpu or self.cpus_per_gpu) if wanted.gpus else self.cpus

    def _type_of(self, wanted: Resources) -> GpuType:
        return self.gpu_types.get(wanted.gpu_type or "", GpuType())

    def service_account_of(self, tenant: str) -> str:
        return self.service_account.replace(IN_PATTERN, tenant)

    def queue_of(self, tenant: str) -> str | None:
        return self.queue.replace(IN_PATTERN, tenant) if self.queue else None
