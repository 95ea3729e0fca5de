"""Reference pages of settings files, made from the JSON schemas of their pydantic models."""

import json
from typing import Any

from pydantic import BaseModel


def settings_page(title: str, model: type[BaseModel], intro: str) -> str:
    """A Markdown page: one table for the model, and one for each model that it uses, in the order of first use."""
    schema = model.model_json_schema()
    definitions: dict[str, Any] = schema.get("$defs", {})
    lines = [f"# {title}", "", intro, ""]
    lines += _table(schema, definitions)
    for name in _in_order_of_use(schema, definitions):
        lines += [f"## {name}", "", definitions[name].get("description", "").split("\n\n")[0].replace("\n", " "), ""]
        lines += _table(definitions[name], definitions)
    return "\n".join(lines)


def cell(text: str) -> str:
    """``text`` as one cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


def _table(schema: dict[str, Any], definitions: dict[str, Any]) -> list[str]:
    if "properties" not in schema:
        return [f"One of {_type(schema)}.", ""]
    required = schema.get("required", ())
    lines = ["| field | value | default | meaning |", "|---|---|---|---|"]
    for name, field in schema["properties"].items():
        default = "*required*" if name in required else _default(field)
        # Pydantic leaves out a field's words where they are those of its model.
        model = definitions.get(field.get("$ref", "").rsplit("/", 1)[-1], {})
        words = cell(field.get("description") or model.get("description", ""))
        lines.append(f"| `{name}` | {cell(_type(field))} | {default} | {words} |")
    return [*lines, ""]


def _default(field: dict[str, Any]) -> str:
    """The default as it would be written; nested settings have theirs in their own table."""
    if "default" not in field or "$ref" in field:
        return ""
    value = field["default"]
    if isinstance(value, dict):
        return ""
    return "`''`" if value == "" else f"`{json.dumps(value, ensure_ascii=False).strip(chr(34))}`"


def _type(field: dict[str, Any]) -> str:
    """What may be written, in words."""
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    for joined in ("anyOf", "oneOf", "allOf"):
        if joined in field:
            return " or ".join(dict.fromkeys(_type(part) for part in field[joined]))
    kind = field.get("type", "anything")
    if kind == "array":
        return f"list of {_type(field.get('items', {}))}"
    if kind == "object":
        values = field.get("additionalProperties")
        return f"map of name to {_type(values)}" if isinstance(values, dict) else "map"
    word = {"string": "text", "integer": "whole number", "boolean": "true or false"}.get(kind, kind)
    return f"{word}{_range(field)}"


def _range(field: dict[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {field[name]:,}" for name, sign in signs.items() if name in field]
    return f", {' and '.join(bounds)}" if bounds else ""


def _in_order_of_use(schema: dict[str, Any], definitions: dict[str, Any]) -> list[str]:
    """Names of the models that ``schema`` uses, each once, in depth-first order."""
    found: dict[str, None] = {}

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            reference = part.get("$ref", "").rsplit("/", 1)[-1]
            if reference and reference not in found:
                found[reference] = None
                walk(definitions[reference])
            for key, value in part.items():
                if key != "$defs":
                    walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    walk(schema)
    return list(found)
