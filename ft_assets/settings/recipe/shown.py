"""A resolved configuration as people see it: setting, value and origin."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ft_assets.settings.catalogue.methods import METHODS, SECTIONS
from ft_assets.settings.recipe.ready_templates import ready_name
from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.artifacts import Artifact
from ft_resources.canonical import digest

_SECTIONS = ("lora", *SECTIONS, "training", "hardware")
# Settings of the training are shown; settings of a cluster's machines are not.
_LEFT_OUT = ("hardware.image", "hardware.max_gpu_hours")


def shown_settings(recipe: Recipe, origins: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(dotted path, value, origin) of every setting of the training, in the recipe's order."""
    rows: list[tuple[str, str, str]] = [
        ("method", recipe.method, origins["method"]),
        ("variant", recipe.variant, origins["variant"]),
    ]
    for section in _SECTIONS:
        if _used(recipe, section):
            settings = getattr(recipe, section)
            values = settings.model_dump(mode="json")
            # Dumps omit newer settings with their default, which may be an ``auto``.
            for name in type(settings).model_fields.keys() - values.keys():
                if f"{section}.{name}" in origins:
                    values[name] = getattr(settings, name)
            rows += [(path, _text(value), origins[path]) for path, value in _single(values, section)]
    rows += [("packing.max_length", str(recipe.packing.max_length), origins["packing.max_length"])]
    if recipe.chat_template is not None:
        rows.append(("chat_template", ready_name(recipe.chat_template) or "a file's", "recipe"))
    return [row for row in rows if row[0] not in _LEFT_OUT]


def _single(values: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """The settings in ``values`` and in the sections inside, each with its dotted path."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _single(value, f"{path}.{name}")
        else:
            yield f"{path}.{name}", value


def shown_values(values: Mapping[str, Any]) -> str:
    """A trial's values in one line: ``training.learning_rate 0.001, lora.rank 8``."""
    return ", ".join(f"{path} {shown_value(value)}" for path, value in values.items())


def settings_table(rows: Iterable[tuple[str, str, str]]) -> str:
    """``rows`` as a Markdown table; values chosen by rules come first, as readers look for these."""
    ordered = sorted(rows, key=lambda row: not row[2].startswith("auto"))
    lines = [f"| `{name}` | {_cell(value)} | {_cell(why)} |" for name, value, why in ordered]
    return "\n".join(["| setting | value | from |", "|---|---|---|", *lines])


RECORD = "report/configuration.json"
"""File of ``configuration_record`` in an artifact: outside the digest, which wording must not change."""


def configuration_hash(params: Mapping[str, Any]) -> str:
    """Hash of every setting that decides the weights, besides pack and base; equal for equivalent recipes."""
    return digest(dict(params))


def configuration_record(params: Mapping[str, Any], runtime: Mapping[str, Any], label: str) -> dict[str, Any]:
    """A training's settings, the pair that first requested it (``label``), and each value's origin."""
    told = {name: value for name, value in runtime.items() if name != "origins"}
    return {
        "hash": configuration_hash(params),
        "made_for": label,
        "params": dict(params),
        "runtime": told,
        "origins": dict(runtime.get("origins", {})),
    }


def made_for(artifact: Artifact) -> str:
    """The pair that a checkpoint was trained for, "" if not recorded. Equivalent pairs share the checkpoint."""
    if RECORD not in artifact.manifest.files:
        return ""
    return str(artifact.read_json(RECORD)["made_for"])


def _used(recipe: Recipe, section: str) -> bool:
    if section == "lora":
        return recipe.variant != "full"
    return section not in SECTIONS or section == METHODS[recipe.method].section


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def shown_value(value: Any) -> str:
    """A setting as it is written in YAML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(str(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
