"""The recipe of a job: its model's defaults, and the hyperparameters that the request named. Pure."""

import re
from typing import Annotated, Any

from pydantic import Field

from ft_assets.control.auto.resolve import resolve
from ft_assets.records.jobs import Job, MethodType
from ft_assets.settings.keys import RecipeKey
from ft_assets.settings.models import ModelsFile, OfferedModel
from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.canonical import digest
from ft_resources.errors import BadRecipe, NotFound
from ft_resources.settings import Auto, Settings
from ft_resources.strict import parse_strict

METHOD_OF: dict[MethodType, str] = {"supervised": "sft", "dpo": "dpo", "kto": "kto", "cpt": "cpt"}
# A key's part has at most 40 characters: name, method and eight of the digest, with hyphens.
_NAME, _DIGEST = 24, 8


class Hyperparameters(Settings):
    """The hyperparameters of OpenAI's API; ``auto``, or leaving one out, means the model's recipe decides."""

    n_epochs: Annotated[int, Field(ge=1, le=50)] | Auto = Field(default="auto", description="Epochs.")
    batch_size: Annotated[int, Field(ge=1, le=65536)] | Auto = Field(
        default="auto", description="Examples per optimizer step."
    )
    learning_rate_multiplier: Annotated[float, Field(gt=0, le=1000)] | Auto = Field(
        default="auto", description="Multiplier of the model's default learning rate."
    )
    beta: Annotated[float, Field(gt=0, le=100)] | Auto = Field(
        default="auto", description="dpo: strength of the penalty for leaving the base model."
    )


def read_hyperparameters(given: dict[str, Any], method: MethodType) -> Hyperparameters:
    """``given`` checked. Raises BadRecipe with the name of a wrong one."""
    numbers = {
        name: float(value) if name in ("learning_rate_multiplier", "beta") and isinstance(value, int) else value
        for name, value in given.items()
    }
    found = parse_strict(Hyperparameters, numbers, "hyperparameters")
    if found.beta != "auto" and method != "dpo":
        raise BadRecipe("beta belongs to the method dpo", where="hyperparameters.beta", remedy="Leave it out.")
    return found


def offered(models: ModelsFile, name: str) -> OfferedModel:
    """The model ``name`` of the catalogue. Raises NotFound."""
    if name not in models.models:
        raise NotFound(f"there is no model {name!r} to fine-tune", where="model", remedy="List models to see them.")
    return models.models[name]


def recipe_of_job(job: Job, model: OfferedModel, locked: str = "") -> Recipe:
    """The recipe that ``job`` asks for of ``model``; equal jobs of a tenant have the same. ``locked`` tells a base that
    is a folder from what was in it before. Raises BadRecipe."""
    where, asked = f"model {job.model}", read_hyperparameters(job.hyperparameters, job.method)
    content: dict[str, Any] = {"description": f"{job.model}, as jobs of the API ask for it.", **model.recipe}
    training = {**content.get("training", {})}
    if asked.n_epochs != "auto":
        training["epochs"] = asked.n_epochs
        # The model's own limit would cut the requested number of epochs short.
        training.pop("max_steps", None)
    if asked.batch_size != "auto":
        training["global_batch_size"] = asked.batch_size
    if job.seed is not None:
        training["seed"] = job.seed
    if asked.beta != "auto":
        content["preference"] = {**content.get("preference", {}), "beta": asked.beta}
    content |= {"base": model.base, "method": METHOD_OF[job.method], "training": training}
    if asked.learning_rate_multiplier != "auto":
        training["learning_rate"] = _rate(content, where) * asked.learning_rate_multiplier
    differs = digest({**content, "locked": locked} if locked else content)[:_DIGEST]
    name = f"{re.sub(r'[^a-z0-9]+', '-', job.model)[:_NAME].strip('-')}-{METHOD_OF[job.method]}-{differs}"
    return parse_strict(Recipe, {"key": str(RecipeKey(tenant=job.tenant, name=name, version=1)), **content}, where)


def _rate(content: dict[str, Any], where: str) -> float:
    """The learning rate of the model's recipe."""
    rate = resolve(parse_strict(Recipe, {"key": "model.v1", **content}, where))[0].training.learning_rate
    if not isinstance(rate, int | float):
        raise BadRecipe(
            "this model's learning rate is derived from data and base, and cannot be multiplied",
            where="hyperparameters.learning_rate_multiplier",
            remedy="Remove it; the platform's operator can set training.learning_rate in the models file.",
        )
    return float(rate)
