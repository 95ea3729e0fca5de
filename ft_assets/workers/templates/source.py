"""The text of a base's own chat template, and the settings of its tokenizer."""

import json
from pathlib import Path
from typing import Any

from ft_assets.settings.recipe.recipe import MAX_TEMPLATE_CHARACTERS
from ft_resources.errors import BadBase

TOKENIZER_CONFIG = "tokenizer_config.json"
_REMEDY = "Take a base with a shorter one, in UTF-8."


def own_template(folder: Path) -> str | None:
    """The chat template that transformers would use for this base, or None if it has no template.

    chat_template.jinja comes before tokenizer_config.json. Of several named templates, ``default`` is used. Raises
    BadBase for one that is no text, or is longer than a recipe's may be: Jinja takes seconds to read a long one.
    """
    path = folder / "chat_template.jinja"
    found: Any
    if path.exists():
        try:
            with path.open("rb") as file:
                found = file.read(4 * MAX_TEMPLATE_CHARACTERS + 1).decode("utf-8")
        except UnicodeDecodeError as error:
            # Also where the limit cuts a character.
            what = "the chat template is not UTF-8 text, or is too long"
            raise BadBase(what, where=path.name, remedy=_REMEDY) from error
    else:
        path = folder / TOKENIZER_CONFIG
        found = tokenizer_settings(folder).get("chat_template")
        if isinstance(found, list):
            named = [item.get("template") for item in found if isinstance(item, dict) and item.get("name") == "default"]
            found = named[-1] if named else None
    if isinstance(found, str) and len(found) > MAX_TEMPLATE_CHARACTERS:
        what = f"the chat template has more than {MAX_TEMPLATE_CHARACTERS:,} characters"
        raise BadBase(what, where=path.name, remedy=_REMEDY)
    return found if isinstance(found, str) and (found.strip() or path.name != TOKENIZER_CONFIG) else None


def tokenizer_settings(folder: Path) -> dict[str, Any]:
    """The base's tokenizer_config.json, or {} if the file is missing. Raises BadBase if it is not a JSON object."""
    path = folder / TOKENIZER_CONFIG
    if not path.exists():
        return {}
    try:
        settings: dict[str, Any] = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        reason = f"is not valid JSON ({error})"
    else:
        if isinstance(settings, dict):
            return settings
        reason = "is not a JSON object"
    raise BadBase(f"{path.name} {reason}", where=path.name, remedy="Take a base with a valid one.")
