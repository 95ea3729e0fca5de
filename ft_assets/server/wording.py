"""What is wrong with a request, in our own words: pydantic's speak of Python's types."""

from collections.abc import Sequence
from typing import Any

from pydantic_core import ErrorDetails, PydanticCustomError

from ft_resources.strict import field_path

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
    "enum": "must be {expected}",
}
_BEGINNINGS = {"int_": "must be a whole number", "string_": "must be a text"}


def unsupported(instead: str) -> PydanticCustomError:
    """What a validator raises for a value that would change an answer here; ``instead`` is what may be sent."""
    words = "is not supported here: leave it out, or send {instead}"
    return PydanticCustomError("unsupported", words, {"instead": instead})


def worded(errors: Sequence[ErrorDetails], body: Any) -> tuple[str, str, str]:
    """Parameter, sentence and code for what is wrong with a request, from pydantic's ``errors`` of the ``body``: of
    those of alternatives, what is wrong with the one that fits furthest."""
    places = [_place(each, body) for each in errors]
    deepest = max((each for each in places if each[: len(places[0])] == places[0]), key=len)
    there = [each for each, place in zip(errors, places, strict=True) if place == deepest]
    param = ".".join(map(str, deepest))
    if there[0]["type"] == "json_invalid":
        known = there[0].get("ctx", {})
        return (
            "",
            f"The body is not valid JSON: {known.get('error')}, at letter {there[0]['loc'][-1]}.",
            "invalid_value",
        )
    first, *others = dict.fromkeys(_said(each) for each in there)
    said = " or ".join([first, *(each.removeprefix("must be ") for each in others)])
    code = {"missing": "missing_required_parameter", "extra_forbidden": "unknown_parameter"}.get(there[0]["type"])
    if param:
        return param, f"{param} {said}.", code or "invalid_value"
    if isinstance(there[0]["input"], bytes) or there[0]["type"] == "missing":
        said = "is not JSON: send a JSON object, with the header Content-Type: application/json"
        return "", f"The body {said}.", "invalid_value"
    return "", f"{said}." if there[0]["type"] == "value_error" else f"The body {said}.", "invalid_value"


def _said(error: ErrorDetails) -> str:
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


def _place(error: ErrorDetails, body: Any) -> tuple[str | int, ...]:
    """Where it is in what was sent."""
    where, *path = error["loc"]
    return tuple(path) if where != "body" else field_path(tuple(path), body, missing=error["type"] == "missing")
