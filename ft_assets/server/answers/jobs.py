"""Jobs, their events and checkpoints."""

from typing import Any, Literal

from ft_assets.records.jobs import MethodType
from ft_assets.server.answers.base import Object


class JobError(Object):
    """Why a job failed."""

    code: Literal[
        "gates_rejected", "training_failed", "invalid_training_file", "invalid_validation_file", "invalid_request"
    ]
    message: str
    param: str | None


class MethodSettings(Object):
    """Settings of a method."""

    hyperparameters: dict[str, int | float | str | list[str]]


class JobMethod(Object):
    """How is trained; the settings stand under the method's name."""

    type: MethodType
    supervised: MethodSettings = MethodSettings(hyperparameters={})
    lora: MethodSettings = MethodSettings(hyperparameters={})
    qlora: MethodSettings = MethodSettings(hyperparameters={})
    sft: MethodSettings = MethodSettings(hyperparameters={})
    dpo: MethodSettings = MethodSettings(hyperparameters={})
    orpo: MethodSettings = MethodSettings(hyperparameters={})
    kto: MethodSettings = MethodSettings(hyperparameters={})
    simpo: MethodSettings = MethodSettings(hyperparameters={})
    cpt: MethodSettings = MethodSettings(hyperparameters={})


class OwnJob(Object):
    """What OpenAI's object has no place for."""

    submission: str
    dataset: str
    recipe: str
    state: str
    detail: str
    remedy: str
    step: int | None
    steps: int | None
    adapter: str
    suggestions: list[str]
    walls: list[str]


class Job(Object):
    """A job. Times are seconds since the epoch."""

    id: str
    object: Literal["fine_tuning.job"]
    created_at: int
    finished_at: int | None
    estimated_finish: int | None
    status: Literal["validating_files", "queued", "running", "paused", "succeeded", "failed", "cancelled"]
    error: JobError | None
    model: str
    fine_tuned_model: str | None
    organization_id: str
    training_file: str
    validation_file: str | None
    hyperparameters: dict[str, int | float | str | list[str]]
    method: JobMethod
    result_files: list[str]
    trained_tokens: int | None
    seed: int
    user_provided_suffix: str | None
    metadata: dict[str, str] | None
    integrations: list[Any]
    ft: OwnJob


class Event(Object):
    """What happened in a job; ``data`` has the figures of a step."""

    id: str
    object: Literal["fine_tuning.job.event"]
    created_at: int
    level: Literal["info", "warn", "error"]
    message: str
    type: Literal["message", "metrics"]
    data: dict[str, int | float] | None


class CheckpointMetrics(Object):
    """Of the checkpoint's step; ``mean_train_loss`` is over the last ten."""

    step: int
    train_loss: float = 0.0
    mean_train_loss: float = 0.0
    valid_loss: float = 0.0


class Checkpoint(Object):
    """The last step of a finished training."""

    id: str
    object: Literal["fine_tuning.job.checkpoint"]
    created_at: int
    fine_tuned_model_checkpoint: str
    fine_tuning_job_id: str
    step_number: int
    metrics: CheckpointMetrics
