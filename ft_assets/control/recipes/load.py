"""Read a recipe file, and replace the chat template's file name by its text."""

from pathlib import Path

from ft_assets.settings.recipe.ready_templates import ready_templates, trl_templates
from ft_assets.settings.recipe.recipe import MAX_TEMPLATE_CHARACTERS, Recipe
from ft_assets.workers.templates.template import check_template
from ft_resources.errors import BadRecipe
from ft_resources.strict import parse_strict, parse_yaml, read_text


def load_recipe(path: Path) -> Recipe:
    """The recipe in the YAML file ``path``; ``chat_template`` holds the text of the named file, or of the ready
    template of that name.

    Raises BadRecipe that names every wrong field, or the line that is not YAML or not UTF-8.
    """
    where = str(path)
    value = parse_yaml(read_text(path, where), where)
    if isinstance(value, dict) and isinstance(value.get("chat_template"), str):
        named = value["chat_template"]
        field = f"{where}, chat_template {named!r}"
        text = ready_templates().get(named)
        if text is None:
            text = read_text(_beside(path, named, field), field, most_bytes=MAX_TEMPLATE_CHARACTERS)
            check_template(text, field)
        value = {**value, "chat_template": text}
    return parse_strict(Recipe, value, where)


def _beside(recipe: Path, named: str, where: str) -> Path:
    """The file ``named`` in the recipe's folder or below it; a link out of the folder could put any file into a
    recipe."""
    folder = recipe.parent.resolve()
    path = (folder / named).resolve()
    if not path.is_relative_to(folder):
        raise BadRecipe("this file is not in the recipe's folder", where=where, remedy="Copy it beside the recipe.")
    if not path.exists():
        raise BadRecipe(
            "there is no such file, and no ready template of this name",
            where=where,
            remedy=f"Name a Jinja file beside the recipe, or one of {', '.join(sorted(ready_templates()))}"
            + ("." if trl_templates() else "; more with the train extra installed."),
        )
    return path
