"""Models: offered, made by a job, and answering for a line."""

from typing import Literal

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
    """A model. One that is offered has a description, others say under ``ft`` what they are made of."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    description: str = ""
    ft: MadeModel | StandingModel | None = None


class Models(Object):
    """All models that may be asked for."""

    object: Literal["list"]
    data: list[Model]


class DeletedModel(Object):
    """What is left of a model."""

    id: str
    object: Literal["model"]
    deleted: Literal[True]
