"""The trials of a sweep as recipes of their own."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ft_assets.checkpoints.configuration.combinations import require_possible
from ft_assets.keys import RecipeKey
from ft_assets.limits import max_pairs
from ft_assets.recipes.models import Recipe
from ft_assets.recipes.strict import parse_strict
from ft_assets.sweeps.draw import draw
from ft_resources.canonical import canonical_json
from ft_resources.errors import BadRecipe

MAX_NAME = 40


class TrialOf(BaseModel):
    """What makes a recipe a trial; part of its stored record, where no author can write it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    sweep: str = Field(description="Key of the sweep recipe.")
    number: int = Field(ge=1, description="Counted from 1 in the order of the sweep.")
    values: dict[str, Any] = Field(description="What the sweep set, by dotted path.")


class Trial(BaseModel):
    """One trial as the sweep's stored record lists it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    key: str = Field(description="Key of the trial's recipe.")
    number: int = Field(ge=1, description="Counted from 1.")
    values: dict[str, Any] = Field(description="What the sweep sets, by dotted path.")


def expand(recipe: Recipe, where: str) -> list[Trial]:
    """The trials of a sweep recipe, none of another. Raises BadRecipe for too many, and for a name too long."""
    if recipe.sweep is None:
        return []
    try:
        drawn = draw(recipe.sweep, max_pairs())
    except ValueError as error:
        raise BadRecipe(
            f"sweep: {error}",
            where=where,
            remedy="Try fewer values, or search at random with fewer trials; FT_MAX_PAIRS sets the limit.",
        ) from error
    digits = max(2, len(str(len(drawn))))
    stem, key = recipe.recipe_key.name, recipe.recipe_key
    longest = MAX_NAME - digits - len("-t")
    if len(stem) > longest:
        raise BadRecipe(
            f"key: {stem!r} is too long for a sweep, whose trials are named {stem}-t{1:0{digits}} and so on",
            where=where,
            remedy=f"Use a name of at most {longest} characters.",
        )
    return [
        Trial(
            key=str(RecipeKey(tenant=key.tenant, name=f"{stem}-t{number:0{digits}}", version=key.version)),
            number=number,
            values={path: list(value) if isinstance(value, tuple) else value for path, value in values.items()},
        )
        for number, values in enumerate(drawn, start=1)
    ]


def trial_recipe(sweep: Recipe, trial: Trial, where: str) -> Recipe:
    """The recipe of one trial: the sweep's with its values set. Raises BadRecipe that names values that cannot be."""
    content = sweep.model_dump(mode="json", exclude_unset=True, exclude={"sweep"})
    for path, value in trial.values.items():
        section, name = path.split(".")
        content[section] = {**content.get(section, {}), name: value}
    content |= {
        "key": trial.key,
        "description": f"Trial {trial.number} of {sweep.key}: {shown_values(trial.values)}"[:2000],
    }
    place = f"{where}, trial {trial.number} ({shown_values(trial.values)})"
    recipe = parse_strict(Recipe, content, place)
    require_possible(recipe.resolved()[0], None, place)
    return recipe


def trial_recipes(sweep: Recipe, trials: list[Trial], where: str) -> list[Recipe]:
    """The recipe of every trial. Raises BadRecipe where one is impossible, and where two mean the same training."""
    for path in trials[0].values if trials else ():
        section, name = path.split(".")
        if name in getattr(sweep, section).model_fields_set:
            raise BadRecipe(
                f"{path} is swept, and set in the recipe as well",
                where=where,
                remedy="Write it once: below sweep.parameters, or in its section.",
            )
    recipes = [trial_recipe(sweep, trial, where) for trial in trials]
    seen: dict[bytes, Trial] = {}
    for trial, recipe in zip(trials, recipes, strict=True):
        same = seen.setdefault(canonical_json(recipe.training_settings()), trial)
        if same is not trial:
            raise BadRecipe(
                f"sweep: trial {same.number} ({shown_values(same.values)}) and trial {trial.number} "
                f"({shown_values(trial.values)}) are the same training",
                where=where,
                remedy="Leave out values that make no difference; lora settings count for lora and qlora only.",
            )
    return recipes


def shown_values(values: dict[str, Any]) -> str:
    """``training.learning_rate 0.001, lora.rank 8``."""
    return ", ".join(f"{path} {_shown(value)}" for path, value in values.items())


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(str(item) for item in value)}]"
    return "null" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
