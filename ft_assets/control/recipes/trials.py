"""The trials of a sweep as separate recipes."""

from typing import Any

from pydantic import Field

from ft_assets.control.auto.combinations import require_possible
from ft_assets.control.auto.resolve import resolve, training_settings
from ft_assets.control.recipes.draw import draw
from ft_assets.settings.environment import max_pairs
from ft_assets.settings.keys import RecipeKey
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.recipe.shown import shown_values
from ft_resources.canonical import canonical_json
from ft_resources.errors import BadRecipe
from ft_resources.strict import parse_strict
from ft_resources.strict_model import StrictModel

MAX_NAME = 40


class TrialOf(StrictModel):
    """Marks a recipe as a trial; part of its stored record, which authors cannot write."""

    sweep: str = Field(description="Key of the sweep recipe.")
    number: int = Field(ge=1, description="Counted from 1 in the order of the sweep.")
    values: dict[str, Any] = Field(description="What the sweep set, by dotted path.")


class Trial(StrictModel):
    """One trial as listed in the sweep's stored record."""

    key: str = Field(description="Key of the trial's recipe.")
    number: int = Field(ge=1, description="Counted from 1.")
    values: dict[str, Any] = Field(description="What the sweep sets, by dotted path.")


def expand(recipe: Recipe, where: str) -> list[Trial]:
    """The trials of a sweep recipe, empty for others. Raises BadRecipe for too many trials, and for a name too long."""
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
    """The recipe of one trial: the sweep's with the trial's values. Raises BadRecipe that names invalid values."""
    content = sweep.model_dump(mode="json", exclude_unset=True, exclude={"sweep"})
    for path, value in trial.values.items():
        section, name = path.split(".")
        content[section] = {**content.get(section, {}), name: value}
    content |= {
        "key": trial.key,
        "description": f"Trial {trial.number} of {sweep.key}: {shown_values(trial.values)}"[:2000],
    }
    place = f"{where}, trial {trial.number} ({shown_values(trial.values)})"
    # One pack serves all trials: its window may be a default that was lowered to the base's context.
    recipe = parse_strict(Recipe, content, place).model_copy(update={"packing": sweep.packing})
    require_possible(resolve(recipe)[0], None, place)
    return recipe


def trial_recipes(sweep: Recipe, trials: list[Trial], where: str) -> list[Recipe]:
    """The recipe of every trial. Raises BadRecipe if one is invalid, or if two describe the same training."""
    for path in trials[0].values if trials else ():
        section, name = path.split(".")
        if name in getattr(sweep, section).model_fields_set:
            raise BadRecipe(
                f"{path} is swept and also set in the recipe",
                where=where,
                remedy="Set it once: in sweep.parameters or in its section.",
            )
    recipes = [trial_recipe(sweep, trial, where) for trial in trials]
    seen: dict[bytes, Trial] = {}
    for trial, recipe in zip(trials, recipes, strict=True):
        same = seen.setdefault(canonical_json(training_settings(recipe)), trial)
        if same is not trial:
            raise BadRecipe(
                f"sweep: trial {same.number} ({shown_values(same.values)}) and trial {trial.number} "
                f"({shown_values(trial.values)}) are the same training",
                where=where,
                remedy="Leave out values that make no difference; lora settings affect only lora and qlora.",
            )
    return recipes
