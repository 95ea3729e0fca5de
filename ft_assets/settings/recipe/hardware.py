"""The recipe's section on where the training runs, and which resources it requests there."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Strict, model_validator

from ft_assets.settings.gpus import find_hardware
from ft_resources.settings import Settings, unique
from ft_resources.strict_model import added_field
from ft_resources.work import Resources


class GpuRange(Settings):
    """A training that uses the GPUs that are free: ``max``, half, a quarter and so on, but not fewer than ``min``."""

    min: int = Field(ge=1, le=8, description="Minimum number of GPUs to start or continue the training.")
    max: int = Field(ge=2, le=8, description="Maximum number of GPUs, if available.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of GPUs on which it may run, the largest first: ``max``, halved as long as the result is whole."""
        found = [self.max]
        while found[-1] % 2 == 0 and found[-1] // 2 >= self.min:
            found.append(found[-1] // 2)
        return tuple(found)

    @model_validator(mode="after")
    def _has_a_choice(self) -> "GpuRange":
        if len(self.sizes) == 1:
            raise ValueError(
                f"{self.min} to {self.max} GPUs allow a single size only, as sizes are halved; set one "
                "number, or a smaller min"
            )
        return self


class HardwareSettings(Settings):
    """Where the training runs."""

    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Device of the worker. auto: cuda where gpus is at least 1, else cpu."
    )
    gpus: Annotated[int, Field(ge=0, le=8)] | GpuRange = Field(
        0,
        description="GPUs per node: at most 8. {min: 2, max: 8}: as many as available (8, 4 or 2), adjusted when the "
        "training resumes from a save; adapters only. Does not change the result.",
    )
    nodes: int = added_field(
        1,
        ge=1,
        le=64,
        description="Number of machines, each with `gpus` GPUs (without GPUs: one process each). More than one "
        "requires "
        "a cluster. Does not change the result.",
    )
    gpu_type: str | None = Field(
        None, min_length=1, max_length=100, description="GPU type to request from a cluster; null: any."
    )
    parts: Annotated[tuple[str, ...], Strict(False), AfterValidator(unique)] = added_field(
        (),
        max_length=16,
        description="Parts of gpu_type, such as [H100-1g.10gb, H100-3g.40gb]. A training gets the smallest that is "
        "certain to fit it with the same recomputation and precision as on gpu_type; otherwise, and for "
        "evaluations, gpu_type.",
    )
    sharding: Literal["auto", "none", "zero1", "zero2", "zero3", "fsdp", "hsdp"] = Field(
        "auto",
        description="State sharded over several GPUs: none, optimizer states (zero1), also gradients (zero2), also "
        "weights (zero3, fsdp; hsdp: within each node, with a copy per node). auto: as little as fits. Does "
        "not change the result.",
    )
    context_parallel: int = added_field(
        1,
        ge=1,
        le=8,
        description="Number of GPUs that split the tokens of each window, for windows too long for one GPU. Must "
        "divide "
        "gpus and the base's key/value heads. Does not change the result.",
    )
    memory_gib: float | None = added_field(
        None,
        gt=0.0,
        description="Host memory to request from a cluster on each node, in GiB; null: the cluster's default.",
    )
    spot: bool | None = added_field(
        None,
        description="Whether to request spot machines, which are cheaper but may be preempted; null: the cluster's "
        "setting. Does not change the result.",
    )
    image: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="Container image of cluster workers, by digest (NAME@sha256:…); null: the platform's.",
    )
    max_gpu_hours: float | None = Field(
        None, gt=0.0, description="Maximum GPU-hours of one training; null: the submission's or tenant's limit."
    )

    def resources(self, gpus: int, *, elastic: bool = False) -> Resources:
        """Resources that a worker with ``gpus`` of these GPUs requests (none if the recipe has no GPUs); if
        ``elastic``, or any number that the recipe allows."""
        return Resources(
            gpus=min(gpus, self.most_gpus),
            gpu_sizes=self.sizes if elastic and self.elastic else (),
            gpu_type=self.gpu_type,
            memory_gib=self.memory_gib,
            spot=self.spot,
            image=self.image,
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of GPUs of each node that one training may have, the largest first."""
        return self.gpus.sizes if isinstance(self.gpus, GpuRange) else (self.gpus,)

    @property
    def elastic(self) -> bool:
        """Whether the number of GPUs may change from attempt to attempt."""
        return len(self.sizes) > 1

    @property
    def most_gpus(self) -> int:
        """GPUs of one training on each node, at most."""
        return self.sizes[0]

    @property
    def all_gpus(self) -> int:
        """GPUs of one training over all nodes, at most; 0 on CPUs."""
        return self.most_gpus * self.nodes

    @property
    def world(self) -> int:
        """Processes of one training over all nodes: one per GPU, or one per node without GPUs; virtual ones if their
        number may change."""
        return max(1, self.most_gpus) * self.nodes

    @property
    def readers(self) -> int:
        """How many processes, or groups of processes that share their windows, read different windows."""
        return self.world // self.context_parallel

    @model_validator(mode="after")
    def _parts_are_of_the_type(self) -> "HardwareSettings":
        if self.parts and self.all_gpus != 1:
            raise ValueError("parts need gpus: 1 and nodes: 1: parts of GPUs cannot train together")
        whole = find_hardware(self.gpu_type or "")
        for name in self.parts:
            part = find_hardware(name)
            if whole is None or part is None or part.part_of != whole.name:
                raise ValueError(f"parts: {name} is not a known part of gpu_type {self.gpu_type}")
        return self

    @model_validator(mode="after")
    def _device_matches_gpus(self) -> "HardwareSettings":
        if self.device == "cuda" and not self.most_gpus:
            raise ValueError("device cuda needs gpus of at least 1")
        if self.device == "cpu" and self.most_gpus:
            raise ValueError(f"device cpu and gpus {self.most_gpus} contradict each other")
        if max(1, self.most_gpus) % self.context_parallel:
            raise ValueError(f"context_parallel {self.context_parallel} does not divide gpus {self.most_gpus}")
        return self
