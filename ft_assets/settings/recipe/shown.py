"""A settled configuration as people see it: setting, value, and where it came from."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ft_assets.recipes.models import Recipe
from ft_resources.artifacts import Artifact
from ft_resources.canonical import digest

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


RECORD = "report/configuration.json"
"""Where an artifact keeps ``configuration_record``: beside the result, as words do not decide its digest."""


def configuration_hash(params: Mapping[str, Any]) -> str:
    """Of everything that decides the weights beside pack and base: equal for recipes that mean the same."""
    return digest(dict(params))


def configuration_record(params: Mapping[str, Any], runtime: Mapping[str, Any], label: str) -> dict[str, Any]:
    """What a training was told, by which recipe first (``label``: the pair), and where each value came from."""
    told = {name: value for name, value in runtime.items() if name != "origins"}
    return {
        "hash": configuration_hash(params),
        "made_for": label,
        "params": dict(params),
        "runtime": told,
        "origins": dict(runtime.get("origins", {})),
    }


def made_for(artifact: Artifact) -> str:
    """The pair that a checkpoint was trained for, "" where it does not say. Other pairs that mean the same share it."""
    if RECORD not in artifact.manifest.files:
        return ""
    return str(json.loads(artifact.read(RECORD))["made_for"])


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
