"""The recipe of a job: its model's defaults, and the hyperparameters that the request named. Pure."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from ft_assets.control.auto.resolve import resolve
from ft_assets.records.jobs import Job, MethodType
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.keys import RecipeKey
from ft_assets.settings.models import ModelsFile, OfferedModel
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.ungated import NO_GATES
from ft_resources.canonical import digest
from ft_resources.errors import BadRecipe, NotFound
from ft_resources.settings import Auto, Settings
from ft_resources.strict import parse_strict

METHOD_OF: dict[MethodType, str] = {
    **dict.fromkeys(("supervised", "lora", "qlora", "sft"), "sft"),
    **{name: name for name in ("dpo", "orpo", "kto", "simpo", "cpt")},
}
_VARIANT_OF: dict[MethodType, str] = {"lora": "lora", "qlora": "qlora", "sft": "full"}
_WITH_BETA = ("dpo", "orpo", "kto", "simpo")
# A key's part has at most 40 characters: name, method and eight of the digest, with hyphens.
_NAME, _DIGEST = 24, 8


class Hyperparameters(Settings):
    """The hyperparameters of OpenAI's API; ``auto``, or leaving one out, means the model's recipe decides."""

    n_epochs: Annotated[int, Field(ge=1, le=50)] | Auto = Field(default="auto", description="Epochs.")
    batch_size: Annotated[int, Field(ge=1, le=65536)] | Auto = Field(
        default="auto", description="Examples per optimizer step."
    )
    # Of less, the product rounds to a rate of 0.
    learning_rate_multiplier: Annotated[float, Field(ge=1e-6, le=1000)] | Auto = Field(
        default="auto", description="Multiplier of the model's default learning rate."
    )
    beta: Annotated[float, Field(ge=1e-6, le=100)] | Auto = Field(
        default="auto",
        description="dpo and kto: strength of the penalty for leaving the base model; orpo, simpo: weight.",
    )
    lora_rank: Annotated[int, Field(ge=1, le=1024)] | Auto = Field(default="auto", description="Rank of adapters.")
    lora_alpha: Annotated[int, Field(ge=1, le=65536)] | Auto = Field(default="auto", description="Scale of adapters.")
    lora_target_modules: (
        Literal["all-linear"] | Annotated[tuple[str, ...], Strict(False), Field(min_length=1)] | Auto
    ) = Field(default="auto", description="Names of the modules that get an adapter, or all-linear.")


def read_hyperparameters(given: dict[str, Any], method: MethodType) -> Hyperparameters:
    """``given`` checked. Raises BadRecipe with the name of a wrong one."""
    numbers = {
        name: float(value) if name in ("learning_rate_multiplier", "beta") and type(value) is int else value
        for name, value in given.items()
    }
    found = parse_strict(Hyperparameters, numbers, "hyperparameters")
    if found.beta != "auto" and METHOD_OF[method] not in _WITH_BETA:
        raise BadRecipe(
            f"beta belongs to the methods {', '.join(_WITH_BETA)}", where="hyperparameters.beta", remedy="Leave it out."
        )
    return found


def offered(models: ModelsFile, name: str) -> OfferedModel:
    """The model ``name`` of the catalogue. Raises NotFound."""
    if name not in models.models:
        raise NotFound(f"there is no model {name!r} to fine-tune", where="model", remedy="List models to see them.")
    return models.models[name]


def recipe_of_job(job: Job, model: OfferedModel, locked: str = "", *, suites: Sequence[str] = ()) -> Recipe:
    """The recipe that ``job`` asks for of ``model``; equal jobs of a tenant have the same. ``locked`` tells a base that
    is a folder from what was in it before; ``suites`` are those of its ``eval_config``. Raises BadRecipe."""
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
        section = METHODS[METHOD_OF[job.method]].section
        content[section] = {**(content.get(section) or {}), "beta": asked.beta}
    content |= {"base": model.base, "method": METHOD_OF[job.method], "training": training}
    if job.method in _VARIANT_OF:
        content["variant"] = _VARIANT_OF[job.method]
    if adapters := _adapters(asked, content.get("variant")):
        content["lora"] = {**content.get("lora", {}), **adapters}
    if suites:
        own = parse_strict(Recipe, {"key": "model.v1", **content}, where)
        content["evaluation"] = {**content.get("evaluation", {}), "suites": [*own.evaluation.suites, *suites]}
        if own.gates == NO_GATES:
            content["gates"] = {}
    if job.eval_config.safety_scan:
        gates = content.get("gates", {})
        # Every threshold is written out: a later change of a default changes no recipe.
        content["gates"] = {**gates, "safety": gates.get("safety") or SafetyGate().model_dump()}
    if asked.learning_rate_multiplier != "auto":
        training["learning_rate"] = _rate(content, where) * asked.learning_rate_multiplier
    differs = digest({**content, "locked": locked} if locked else content)[:_DIGEST]
    name = f"{re.sub(r'[^a-z0-9]+', '-', job.model)[:_NAME].strip('-')}-{METHOD_OF[job.method]}-{differs}"
    return parse_strict(Recipe, {"key": str(RecipeKey(tenant=job.tenant, name=name, version=1)), **content}, where)


def _adapters(asked: Hyperparameters, variant: str | None) -> dict[str, Any]:
    """Settings of adapters that the job asks for. Raises BadRecipe where all weights are trained."""
    given = {name: getattr(asked, f"lora_{name}") for name in ("rank", "alpha", "target_modules")}
    found = {name: value for name, value in given.items() if value != "auto"}
    if found and variant == "full":
        raise BadRecipe(
            "all weights are trained, and there is no adapter",
            where=f"hyperparameters.lora_{next(iter(found))}",
            remedy="Leave it out, or write the method lora.",
        )
    return found


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
