"""The bodies of requests for jobs."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ft_assets.records.jobs import MethodType
from ft_resources.errors import UserError


class _Given(BaseModel):
    """A client's body; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


MOST = 10**9
"""Of any number of a job's."""
_Number = Annotated[int, Field(strict=True, ge=-MOST, le=MOST)] | Annotated[float, Field(strict=True)]
_Word = Annotated[str, Field(max_length=64)]
Hyperparameters = Annotated[
    dict[_Word, _Number | _Word | Annotated[list[_Word], Field(max_length=64)] | None],
    Field(max_length=16),
]


class _Supervised(_Given):
    hyperparameters: Hyperparameters | None = None


class _Method(_Given):
    type: MethodType
    supervised: _Supervised | None = None
    lora: _Supervised | None = None
    qlora: _Supervised | None = None
    sft: _Supervised | None = None
    dpo: _Supervised | None = None
    orpo: _Supervised | None = None
    kto: _Supervised | None = None
    simpo: _Supervised | None = None
    cpt: _Supervised | None = None
    reinforcement: None = None


_Text = Annotated[str, Field(max_length=512)]


class CreateJob(_Given):
    """The body of a creation. ``recipe``, ``gates``, ``max_gpu_hours`` and ``rows`` are ours, sent by ``extra_body``,
    as are all methods but ``supervised`` and ``dpo``, and dataset versions as ``training_file``."""

    model: Annotated[str, Field(min_length=1, max_length=200)]
    training_file: Annotated[str, Field(min_length=1, max_length=100)]
    validation_file: Annotated[str, Field(max_length=100)] | None = None
    method: _Method | None = None
    hyperparameters: Hyperparameters | None = Field(default=None, description="The older place of them.")
    suffix: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, description="Name of the line: lower-case letters, digits and hyphens."
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    metadata: Annotated[dict[Annotated[str, Field(max_length=64)], _Text], Field(max_length=16)] | None = None
    integrations: Annotated[list[Any], Field(max_length=0)] | None = None
    recipe: Annotated[str, Field(max_length=200)] = Field(
        default="", description="Key of a registered recipe, in place of the model's recipe."
    )
    gates: Annotated[list[_Text], Field(max_length=20)] = Field(
        default=[], description="Additional gates, stricter than the recipe's."
    )
    max_gpu_hours: Annotated[float, Field(gt=0)] | None = None
    rows: dict[str, Any] = Field(
        default={}, description="How the rows are read: `form`, `fields` … as in a dataset.yaml. Default: guessed."
    )

    def fields(self) -> dict[str, Any]:
        """Those of a job. Raises UserError where two places say different things."""
        method = self.method.type if self.method else "supervised"
        section = getattr(self.method, method) if self.method else None
        given, older = said(section and section.hyperparameters), said(self.hyperparameters)
        for name in type(self.method).model_fields if self.method else ():
            other = getattr(self.method, name)
            if name not in ("type", method) and said(other and other.hyperparameters):
                raise UserError(
                    f"they are of another method than {method}",
                    where=f"method.{name}",
                    remedy=f"Send them in method.{method}, or leave them out.",
                )
        # A job's own answer has them in both places.
        if given and older and given != older:
            raise UserError("it is given twice", where="hyperparameters", remedy="Set it in `method` only.")
        return {
            "model": self.model,
            "training_file": self.training_file.removeprefix("file-"),
            "validation_file": (self.validation_file or "").removeprefix("file-"),
            "method": method,
            "hyperparameters": given or older,
            "suffix": self.suffix or "",
            "seed": self.seed,
            "metadata": self.metadata or {},
            "recipe": self.recipe,
            "gates": tuple(self.gates),
            "max_gpu_hours": self.max_gpu_hours,
            "rows": self.rows,
        }


def said(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The hyperparameters that are not left to the model's recipe."""
    return {name: value for name, value in (given or {}).items() if value not in ("auto", None)}
