"""The text of a base's own chat template, and the settings of its tokenizer."""

import json
from pathlib import Path
from typing import Any

from ft_resources.errors import BadBase

TOKENIZER_CONFIG = "tokenizer_config.json"


def own_template(folder: Path) -> str | None:
    """The chat template that transformers would use for this base, or None if it has no template.

    chat_template.jinja comes before tokenizer_config.json. Of several named templates, ``default`` is used.
    """
    path = folder / "chat_template.jinja"
    if path.exists():
        return path.read_text(encoding="utf-8")
    found = tokenizer_settings(folder).get("chat_template")
    if isinstance(found, list):
        named = {item.get("name"): item.get("template") for item in found if isinstance(item, dict)}
        found = named.get("default")
    return found if isinstance(found, str) and found.strip() else None


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
