"""The recipe's section on where the training runs, and which resources it requests there."""

from typing import Literal

from pydantic import Field, model_validator

from ft_resources.settings import Settings
from ft_resources.strict_model import added_field
from ft_resources.work import Resources


class HardwareSettings(Settings):
    """Where the training runs."""

    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Device of the worker. auto: cuda where gpus is at least 1, else cpu."
    )
    gpus: int = Field(0, ge=0, le=8, description="GPUs of one training on each node: at most 8.")
    nodes: int = added_field(
        1,
        ge=1,
        le=64,
        description="Machines that train together, each with this many gpus (without GPUs: one process each). More "
        "than one needs a cluster. Does not change the result.",
    )
    gpu_type: str | None = Field(
        None, min_length=1, max_length=100, description="GPU type to request from a cluster; null: any."
    )
    sharding: Literal["auto", "none", "zero1", "zero2", "zero3", "fsdp", "hsdp"] = Field(
        "auto",
        description="What is sharded over several GPUs: nothing, optimizer states (zero1), gradients too (zero2), "
        "weights too (zero3, fsdp; hsdp: within each node, every node has a copy). auto: as little as fits. Does not "
        "change the result.",
    )
    context_parallel: int = added_field(
        1,
        ge=1,
        le=8,
        description="GPUs of a node that share each window, every one with an equal part of its tokens: for windows "
        "that one GPU cannot hold. Divides gpus and the base's key/value heads. Does not change the result.",
    )
    memory_gib: float | None = added_field(
        None,
        gt=0.0,
        description="Host memory to request from a cluster on each node, in GiB; null: the cluster's default.",
    )
    spot: bool | None = added_field(
        None,
        description="Whether to request spot machines, which cost less and may be taken away; null: as in the "
        "cluster's settings. Does not change the result.",
    )
    image: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="Container image of cluster workers, by digest (NAME@sha256:…); null: the platform's.",
    )
    max_gpu_hours: float | None = Field(
        None, gt=0.0, description="Most GPU-hours one training may take; null: the submission's or tenant's limit."
    )

    def resources(self, gpus: int) -> Resources:
        """Resources that a worker with ``gpus`` of these GPUs requests (none if the recipe has no GPUs)."""
        return Resources(
            gpus=min(gpus, self.gpus),
            gpu_type=self.gpu_type,
            memory_gib=self.memory_gib,
            spot=self.spot,
            image=self.image,
        )

    @property
    def all_gpus(self) -> int:
        """GPUs of one training over all nodes; 0 on CPUs."""
        return self.gpus * self.nodes

    @property
    def world(self) -> int:
        """Processes of one training over all nodes: one per GPU, or one per node without GPUs."""
        return max(1, self.gpus) * self.nodes

    @property
    def readers(self) -> int:
        """How many processes, or groups of processes that share their windows, read different windows."""
        return self.world // self.context_parallel

    @model_validator(mode="after")
    def _device_matches_gpus(self) -> "HardwareSettings":
        if self.device == "cuda" and self.gpus == 0:
            raise ValueError("device cuda needs gpus of at least 1")
        if self.device == "cpu" and self.gpus > 0:
            raise ValueError(f"device cpu and gpus {self.gpus} contradict each other")
        if max(1, self.gpus) % self.context_parallel:
            raise ValueError(f"context_parallel {self.context_parallel} does not divide gpus {self.gpus}")
        return self
