"""Nodes and GPUs as an administrator's settings name them: labels, taints, networks, and where they lie."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Strict, model_validator

from ft_resources.strict_model import StrictModel

_EXTENDED = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_TRANSPORT = re.compile(r"(NCCL|FI|UCX|RDMAV|OFI|MLX5|IBV)_[A-Z0-9_]+")


def _extended(name: str) -> str:
    if not _EXTENDED.fullmatch(name):
        raise ValueError(f"{name!r} should be an extended resource, such as rdma/hca_shared_devices_a")
    return name


def _of_transport(name: str) -> str:
    if not _TRANSPORT.fullmatch(name):
        raise ValueError(f"{name!r} is no variable of NCCL or its transports; `environment` of the settings has others")
    return name


ExtendedResource = Annotated[str, AfterValidator(_extended)]
NetworkVariable = Annotated[str, AfterValidator(_of_transport)]


class Toleration(StrictModel):
    """A taint that workers tolerate."""

    key: str = Field(min_length=1, description="The taint's key.")
    value: str | None = Field(None, description="The taint's value; null: any.")
    effect: Literal["NoSchedule", "NoExecute"] = Field("NoSchedule", description="The taint's effect.")


Tolerations = Annotated[tuple[Toleration, ...], Strict(False)]


class Place(StrictModel):
    """Which nodes to use: required labels and tolerated taints."""

    node_selector: dict[str, str] = Field(default_factory=dict, description="Labels of the nodes.")
    tolerations: Tolerations = Field((), description="Taints of the nodes.")


class Network(StrictModel):
    """What the pods of a training on several nodes get to exchange gradients by RDMA. One on a single node gets none of
    it."""

    resources: dict[ExtendedResource, Annotated[int, Field(ge=1)]] = Field(
        description="Devices of each pod by their device plug-in's name, such as {rdma/hca_shared_devices_a: 1} or "
        "{vpc.amazonaws.com/efa: 32}."
    )
    hugepages_mib: int = Field(
        0, ge=0, multiple_of=2, description="Memory of each pod in pages of 2 MiB, in MiB: EFA takes 5120."
    )
    environment: dict[NetworkVariable, str] = Field(
        default_factory=dict,
        description="Variables of NCCL and its transports (NCCL_…, FI_…, UCX_…), such as {NCCL_IB_HCA: mlx5}.",
    )


class Near(StrictModel):
    """How near to each other the nodes of one training should be. Its flavours in ``flavours.yaml`` then have a
    topology."""

    level: str = Field(min_length=1, description="Label of the topology level that the nodes of a training share.")
    required: bool = Field(
        False, description="Whether to wait until one unit of that level has room; false: use the nearest nodes."
    )


class GpuType(Place):
    """A kind of GPU that the cluster has."""

    resource: str = Field("nvidia.com/gpu", min_length=1, description="Name of the extended resource.")
    network: Network | None = Field(None, description="Network for gradients between nodes; null: the pods' network.")
    topology: Near | None = Field(None, description="Placement of a training's nodes in the network; null: ignored.")
    shared_memory_gib: float | None = Field(
        None,
        gt=0.0,
        description="/dev/shm of its workers, in GiB, used for exchange between GPUs of a node; null: "
        "shared_memory_gib of the settings.",
    )
    cpus_per_gpu: float | None = Field(
        None, gt=0.0, description="CPUs per GPU; of a part, its share of them. null: cpus_per_gpu of the settings."
    )
    memory_gib_per_gpu: float | None = Field(
        None,
        gt=0.0,
        description="Host memory per GPU, in GiB; of a part, its share. null: memory_gib_per_gpu of the settings.",
    )
    shared_by: int | None = Field(
        None,
        ge=2,
        le=8,
        description="Number of workers that share one GPU (time-slicing); each gets an equal share of 90 % of its "
        "memory. Requires a separate resource, such as nvidia.com/gpu.shared; null: one worker per GPU.",
    )

    @model_validator(mode="after")
    def _turns_have_a_resource(self) -> "GpuType":
        divided = self.resource.startswith("nvidia.com/mig-")
        if self.shared_by and (self.resource == "nvidia.com/gpu" or divided):
            raise ValueError(f"{self.resource} is also asked for by work that does not share a GPU")
        if (self.shared_by or divided) and self.network:
            raise ValueError("a part of a GPU trains alone and has no network")
        return self

    @model_validator(mode="after")
    def _devices_of_the_network(self) -> "GpuType":
        if self.network and self.resource in self.network.resources:
            raise ValueError(f"network.resources has {self.resource}, which is the GPUs' own")
        return self
