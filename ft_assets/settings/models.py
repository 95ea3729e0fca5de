"""Models that tenants may fine-tune over HTTP: one strict YAML file, ``models.yaml`` or what ``FT_MODELS`` names."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from ft_assets.settings.environment import project_folder
from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.errors import BadRecipe
from ft_resources.settings import Settings
from ft_resources.strict import parse_strict, parse_yaml, read_text

_UNREADABLE = "Correct FT_MODELS, or unset it: then `models.yaml` of the project applies, or no model is offered."


class OfferedModel(Settings):
    """A base, and the default recipe of jobs on it."""

    base: str = Field(
        description="The base as in a recipe: hub:ORG/NAME@REVISION, or folder:PATH relative to this file."
    )
    description: str = Field(default="", max_length=2000, description="Description for users.")
    recipe: dict[str, Any] = Field(
        default_factory=dict,
        description="Sections of a recipe, such as training, evaluation and gates; key, base and method are set by the "
        "job.",
    )

    @model_validator(mode="after")
    def _gives_a_recipe(self) -> "OfferedModel":
        """The file is invalid: the operator's mistake, which must not be shown to the tenant whose job meets it."""
        if taken := {"key", "base", "method"} & self.recipe.keys():
            raise ValueError(f"recipe: {', '.join(sorted(taken))} are set by the job; remove them")
        try:
            parse_strict(Recipe, {"key": "model.v1", "base": self.base, **self.recipe}, "recipe")
        except BadRecipe as error:
            raise ValueError(f"recipe: {error.what}") from error
        return self


class ModelsFile(Settings):
    """The whole file."""

    models: dict[Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?$")], OfferedModel] = Field(
        default_factory=dict,
        description="Models that jobs may request as `model`, by name: lower-case letters, digits, `.` and `-`.",
    )


def models_path() -> Path:
    """``FT_MODELS``, else ``models.yaml`` of the project."""
    named = os.environ.get("FT_MODELS")
    return Path(named) if named else (project_folder() or Path.cwd()) / "models.yaml"


def load_models(path: Path | None = None) -> ModelsFile:
    """The file at ``path``, else that of ``models_path``. Only a file that nobody named may be absent.

    Raises UserError for a file that is invalid or cannot be read.
    """
    file = path or models_path()
    if path is None and "FT_MODELS" not in os.environ and not file.exists():
        return ModelsFile()
    return _parse(str(file), read_text(file, str(file), what="the models file", remedy=_UNREADABLE))


@lru_cache(maxsize=4)
def _parse(where: str, text: str) -> ModelsFile:
    """The parsed ``text``, cached: each creation of a job asks for it, and half of its time went into parsing."""
    return parse_strict(ModelsFile, parse_yaml(text, where), where)
