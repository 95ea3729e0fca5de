"""What is wrong with a request, in our own words: pydantic's speak of Python's types."""

from collections.abc import Sequence
from typing import Any

from pydantic_core import ErrorDetails, PydanticCustomError

from ft_resources.said import said_of
from ft_resources.strict import field_path


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
    first, *others = dict.fromkeys(said_of(each) for each in there)
    said = " or ".join([first, *(each.removeprefix("must be ") for each in others)])
    code = {"missing": "missing_required_parameter", "extra_forbidden": "unknown_parameter"}.get(there[0]["type"])
    if param:
        return param, f"{param} {said}.", code or "invalid_value"
    if isinstance(there[0]["input"], bytes) or there[0]["type"] == "missing":
        said = "is not JSON: send a JSON object, with the header Content-Type: application/json"
        return "", f"The body {said}.", "invalid_value"
    return "", f"{said}." if there[0]["type"] == "value_error" else f"The body {said}.", "invalid_value"


def _place(error: ErrorDetails, body: Any) -> tuple[str | int, ...]:
    """Where it is in what was sent."""
    where, *path = error["loc"]
    return tuple(path) if where != "body" else field_path(tuple(path), body, missing=error["type"] == "missing")
