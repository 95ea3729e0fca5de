"""Jobs at the addresses of the specification."""

from typing import Literal

from ft_assets.server.answers.base import Object
from ft_assets.server.answers.jobs import JobError

Status = Literal[
    "queued",
    "provisioning",
    "running",
    "checkpointing",
    "evaluating",
    "succeeded",
    "failed",
    "cancelled",
    "preempted",
]


class Evaluated(Object):
    """Evaluations beyond those of the model's recipe."""

    run_mmlu_regression: bool
    task_eval_file: str | None
    safety_scan: bool


class SpecifiedJob(Object):
    """A job as specified. Times are seconds since the epoch; null is what there is not yet."""

    job_id: str
    object: Literal["job"]
    status: Status
    detail: str
    error: JobError | None
    created_at: int
    estimated_start: int | None
    base_model: str
    training_file: str
    training_file_version: str | None
    validation_file: str | None
    method: str | None
    hyperparameters: dict[str, int | float | str | list[str]]
    eval_config: Evaluated
    step: int | None
    steps: int | None
    loss: float | None
    grad_norm: float | None
    tokens_per_sec: float | None
    estimated_completion: int | None
    checkpoint_path: str | None
    cost: float | None
    currency: str
    gpu_hours: float | None
    fine_tuned_model: str | None
