"""A settled configuration as people see it: setting, value, and where it came from."""

from collections.abc import Iterable, Mapping
from typing import Any

from ft_assets.recipes.models import Recipe

_SECTIONS = ("lora", "preference", "training", "hardware")
# The optimizer's business is shown; where a cluster gets its machines is not.
_LEFT_OUT = ("hardware.image", "hardware.max_gpu_hours")


def shown_settings(recipe: Recipe, origins: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(dotted path, value, origin) of every setting that has to do with the training, in the recipe's order."""
    rows: list[tuple[str, str, str]] = [
        ("method", recipe.method, origins["method"]),
        ("variant", recipe.variant, origins["variant"]),
    ]
    for section in _SECTIONS:
        if _used(recipe, section):
            values = getattr(recipe, section).model_dump(mode="json")
            rows += [
                (f"{section}.{name}", _text(value), origins[f"{section}.{name}"]) for name, value in values.items()
            ]
    rows += [("packing.max_length", str(recipe.packing.max_length), origins["packing.max_length"])]
    return [row for row in rows if row[0] not in _LEFT_OUT]


def settings_table(rows: Iterable[tuple[str, str, str]]) -> str:
    """``rows`` as a Markdown table; what the rules settled comes first, as it is what one looks for."""
    ordered = sorted(rows, key=lambda row: not row[2].startswith("auto"))
    lines = [f"| `{name}` | {_cell(value)} | {_cell(why)} |" for name, value, why in ordered]
    return "\n".join(["| setting | value | from |", "|---|---|---|", *lines])


def _used(recipe: Recipe, section: str) -> bool:
    if section == "lora":
        return recipe.variant != "full"
    return section != "preference" or recipe.method in ("dpo", "orpo")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
