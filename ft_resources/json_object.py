"""JSON objects that somebody else may have written: in a store, a base's folder, an artifact."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ft_resources.errors import UserError
from ft_resources.said import first_of

Kind = type | tuple[type, ...]


class JsonObject(dict[str, Any]):
    """The members of a JSON object. One that is asked for and missing is the file's fault, and told as that."""

    def __init__(self, members: Mapping[str, Any], error: UserError) -> None:
        super().__init__(members)
        self.error = error

    def __missing__(self, name: str) -> Any:
        raise type(self.error)(f"{self.error.what}: no {name!r}", where=self.error.where, remedy=self.error.remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def json_object(
    data: bytes | str,
    error: type[UserError],
    *,
    where: str,
    remedy: str,
    what: str = "this file",
    members: Mapping[str, Kind] | None = None,
) -> JsonObject:
    """The object that ``data`` holds.

    Args:
        what: how the error names it.
        members: the kinds of members that are read as such; each may be missing or null.

    Raises ``error`` for text that is no JSON, is nested too deeply, or is no object, and for a member of another kind.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise error(f"{what} is not valid JSON ({problem})", where=where, remedy=remedy) from problem
    if not isinstance(found, dict):
        raise error(f"{what} is not a JSON object", where=where, remedy=remedy)
    read = JsonObject(found, error(f"{what} cannot be read", where=where, remedy=remedy))
    require_kinds(read, members or {}, read.error)
    return read


def require_kinds(found: Mapping[str, Any], members: Mapping[str, Kind], error: UserError) -> None:
    """Raise an error as ``error`` for the first of ``members`` that is there and neither null nor of its kind."""
    for name, kind in members.items():
        value = found.get(name)
        # In Python a truth value is a number too.
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if value is not None and not fits:
            what = f"{error.what}: {name} is a {_KINDS[type(value)]}"
            raise type(error)(what, where=error.where, remedy=error.remedy)


def require_shape(found: Any, shape: TypeAdapter[Any], error: UserError) -> None:
    """Raise an error as ``error``, with the place in ``found``, unless that JSON value is as ``shape`` has it."""
    try:
        shape.validate_json(json.dumps(found))
    except ValidationError as problem:
        what = f"{error.what}: {first_of(problem)[1]}"
        raise type(error)(what, where=error.where, remedy=error.remedy) from problem


_KINDS: dict[type, str] = {
    bool: "truth value",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    dict: "JSON object",
}
