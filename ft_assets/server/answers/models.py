"""Models: offered, made by a job, and answering for a line."""

from typing import Any, Literal

from ft_assets.server.answers.base import Object


class MadeModel(Object):
    """Of which job's adapter a model is."""

    adapter: str
    gates: str
    base: str


class StandingModel(Object):
    """Of which line a model is."""

    adapter: str
    digest: str
    line: str


class Model(Object):
    """A model. One that is offered has a description, others say under ``ft`` what they are made of, and besides what
    is known of their adapter."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    type: Literal["base", "fine-tuned"]
    description: str = ""
    ft: MadeModel | StandingModel | None = None
    base_model: str | None = None
    base_model_sha: str | None = None
    artifact_uri: str | None = None
    dataset_version: str | None = None
    eval_metrics: dict[str, Any] | None = None
    stage: str | None = None


class Models(Object):
    """All models that may be asked for."""

    object: Literal["list"]
    data: list[Model]


class DeletedModel(Object):
    """What is left of a model."""

    id: str
    object: Literal["model"]
    deleted: Literal[True]
