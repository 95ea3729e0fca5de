"""Reading a recipe file, with the chat template it names put in its place."""

from pathlib import Path

from ft_assets.base_models.template import check_template
from ft_assets.recipes.models import MAX_TEMPLATE_CHARACTERS, Recipe
from ft_assets.recipes.strict import MAX_BYTES, parse_strict, parse_yaml
from ft_resources.errors import BadRecipe


def load_recipe(path: Path) -> Recipe:
    """The recipe in the YAML file ``path``; ``chat_template`` holds the named file's text.

    Raises BadRecipe that names every wrong field, or the line where the file is not YAML or not UTF-8.
    """
    where = str(path)
    value = parse_yaml(_read_text(path, where, MAX_BYTES), where)
    if isinstance(value, dict) and isinstance(value.get("chat_template"), str):
        named = value["chat_template"]
        field = f"{where}, chat_template {named!r}"
        text = _read_text(path.parent / named, field, MAX_TEMPLATE_CHARACTERS)
        check_template(text, field)
        value = {**value, "chat_template": text}
    return parse_strict(Recipe, value, where)


def _read_text(path: Path, where: str, most_bytes: int) -> str:
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= most_bytes else b""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "this is not a path"
        raise BadRecipe(f"the file cannot be read ({reason})", where=where, remedy="Check the path.") from error
    if size > most_bytes:
        raise BadRecipe(f"the file is larger than {most_bytes // 1024} KiB", where=where, remedy="Shorten it.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadRecipe(
            "this is not UTF-8 text", where=f"{where}, line {line}", remedy="Save the file as UTF-8."
        ) from error
