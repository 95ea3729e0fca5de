"""The format of a line's answers, in ``tenants.yaml``."""

import re
from typing import Any

from pydantic import Field, field_validator, model_validator

from ft_resources.settings import Settings


class AnswerFormat(Settings):
    """What a valid answer looks like: one of the two."""

    regex: str | None = Field(
        default=None,
        min_length=1,
        description="Regular expression that a valid answer contains; `^…$` matches the whole answer.",
    )
    json_schema: dict[str, Any] | None = Field(
        default=None,
        description="JSON Schema (2020-12) of a valid answer. The answer is one JSON document without other text; `{}` "
        "accepts any document. References must point into the schema itself.",
    )

    @model_validator(mode="after")
    def _one(self) -> "AnswerFormat":
        if (self.regex is None) == (self.json_schema is None):
            raise ValueError("format: set either regex or json_schema")
        return self

    @field_validator("regex")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"this is not a regular expression ({error})") from error
        return pattern

    @field_validator("json_schema")
    @classmethod
    def _is_a_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError

        try:
            Draft202012Validator.check_schema(schema or {})
        except SchemaError as error:
            raise ValueError(f"this is not a JSON Schema: {error.message}") from error
        return schema

    @field_validator("json_schema")
    @classmethod
    def _own_references(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        for reference in _references(schema):
            if not reference.startswith("#"):
                raise ValueError(f"the reference {reference} points outside the schema; nothing is fetched")
        return schema


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [each for key, each in value.items() if key in ("$ref", "$dynamicRef") and isinstance(each, str)]
        return own + [found for each in value.values() for found in _references(each)]
    return [found for each in value for found in _references(each)] if isinstance(value, list) else []
