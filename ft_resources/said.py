"""Problems of values in our own words: pydantic's speak of Python's types."""

from pydantic import ValidationError
from pydantic_core import ErrorDetails

_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not supported here: leave it out",
    "none_required": "is not supported here: leave it out",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "model_attributes_type": "must be an object",
    "model_type": "must be an object",
    "list_type": "must be a list",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_long": "must have at most {max_length} letters",
    "string_pattern_mismatch": "must look like {pattern}",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "has a {discriminator} that must be one of {expected_tags}",
    "union_tag_not_found": "must have {discriminator}",
    "enum": "must be {expected}",
}
_BEGINNINGS = {"int_": "must be a whole number", "string_": "must be a text"}


def first_of(error: ValidationError, whole: str = "it") -> tuple[str, str]:
    """The place of the first problem, such as ``logprobs`` or ``stop.0``, and the sentence about it, which names it;
    ``whole`` is what a problem without a place is about."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "json_invalid":
        return "", f"{whole} is not valid JSON"
    said = said_of(first)
    return where, said if first["type"] == "value_error" and not where else f"{where or whole} {said}"


def said_of(error: ErrorDetails) -> str:
    """The problem of a value, without its place: ``must be at least 1``."""
    kind, known = error["type"], error.get("ctx", {})
    if kind == "too_long":
        most = known["max_length"]
        return f"must have at most {most} items" if most else "is not supported here: leave it out, or send it empty"
    if kind in ("too_short", "string_too_short"):
        least, of_what = known["min_length"], "items" if kind == "too_short" else "letters"
        return f"must have at least {least} {of_what}" if least > 1 else "must not be empty"
    if kind == "value_error":
        return str(known["error"])
    if kind == "unsupported":
        return error["msg"]
    if kind in _WORDS:
        return _WORDS[kind].format(**known)
    return next((words for start, words in _BEGINNINGS.items() if kind.startswith(start)), "cannot be used")
