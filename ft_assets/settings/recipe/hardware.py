"""The recipe's section on where the training runs, and what it asks of that place."""

from typing import Literal

from pydantic import Field, model_validator

from ft_assets.recipes.settings import Settings
from ft_resources.work import Resources


class HardwareSettings(Settings):
    """Where the training runs."""

    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Device of the worker. auto: cuda where gpus is at least 1, else cpu."
    )
    gpus: int = Field(0, ge=0, le=8, description="GPUs for one training on each of its nodes: at most 8.")
    nodes: int = Field(
        1,
        ge=1,
        le=64,
        # A recipe for one machine says nothing of nodes, so that its digest is what it was before there were any.
        exclude_if=lambda nodes: nodes == 1,
        description="Machines that train together, with gpus each (without GPUs, with one process each). More than one "
        "needs a cluster to run on. Does not change the result.",
    )
    gpu_type: str | None = Field(
        None, min_length=1, max_length=100, description="Kind of GPU to ask a cluster for; null: any."
    )
    sharding: Literal["auto", "none", "zero1", "zero2", "zero3", "fsdp"] = Field(
        "auto",
        description="What several GPUs divide between them: nothing, optimizer states (zero1), gradients too (zero2), "
        "weights too (zero3, fsdp). auto: as little as fits. Does not change the result.",
    )
    memory_gib: float | None = Field(
        None,
        gt=0.0,
        exclude_if=lambda memory: memory is None,
        description="Host memory to ask a cluster for on each node, in GiB; null: the cluster's usual share.",
    )
    spot: bool | None = Field(
        None,
        exclude_if=lambda spot: spot is None,
        description="Whether to ask a cluster for machines that it may take away, which cost less; null: as the "
        "cluster's settings say. Does not change the result.",
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
        """What a worker with ``gpus`` of these GPUs (none where there are none) asks of the place it runs in."""
        return Resources(
            gpus=min(gpus, self.gpus),
            gpu_type=self.gpu_type,
            memory_gib=self.memory_gib,
            spot=self.spot,
            image=self.image,
        )

    @property
    def all_gpus(self) -> int:
        """GPUs of one training, over all its nodes; 0 on CPUs."""
        return self.gpus * self.nodes

    @property
    def world(self) -> int:
        """Processes of one training, over all its nodes: one for each GPU, and one on a node without any."""
        return max(1, self.gpus) * self.nodes

    @model_validator(mode="after")
    def _device_matches_gpus(self) -> "HardwareSettings":
        if self.device == "cuda" and self.gpus == 0:
            raise ValueError("device cuda needs gpus of at least 1")
        if self.device == "cpu" and self.gpus > 0:
            raise ValueError(f"device cpu and gpus {self.gpus} contradict each other")
        return self
