"""Random requests of somebody who may ask everything of their own tenant, and knows ids of another."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_GARBAGE = (
    "",
    "0",
    "x" * 24,
    "0" * 24,
    "..",
    "a/b",
    "ä",
    "null",
    "-1",
    "1e9",
    "{}",
    "file-",
    "ftjob-",
    "acme",
    "globex",
)
# What is kept as it was written, and shown to who wrote it.
_WORDS = ("name", "reason", "note", "filename", "mime_type")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request, as httpx takes it."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None

    @property
    def said(self) -> str:
        """All that it contains."""
        return f"{self.path} {self.query} {self.headers} {self.body}"


class Stranger:
    """Makes requests to every address of an OpenAPI description ``schema``.

    Args:
        known: ids and keys, with or without their prefixes, of which each place of a request may get one.
    """

    def __init__(self, schema: dict[str, Any], known: Sequence[str], seed: int) -> None:
        self._schema, self._known, self._random = schema, [*known, *_GARBAGE], random.Random(seed)
        self._operations = [
            (path, method, operation)
            for path, methods in schema["paths"].items()
            for method, operation in methods.items()
        ]

    def requests(self, count: int) -> Iterator[Asked]:
        for _ in range(count):
            yield self._request(*self._random.choice(self._operations))

    def _request(self, path: str, method: str, operation: dict[str, Any]) -> Asked:
        places: dict[str, dict[str, str]] = {"path": {}, "query": {}, "header": {}}
        for each in operation.get("parameters", []):
            if each["name"] != "authorization" and (each.get("required") or self._random.random() < 0.5):
                places[each["in"]][each["name"]] = str(self._value(each["schema"]))
        filled = re.sub(r"\{(\w+)\}", lambda found: _quoted(places["path"][found[1]]), path)
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        body = self._value(content["schema"]) if content else None
        headers = {name: value.encode("ascii", "ignore").decode() for name, value in places["header"].items()}
        return Asked(method=method.upper(), path=filled, query=places["query"], headers=headers, body=body)

    def _value(self, schema: dict[str, Any]) -> Any:
        """A value that fits ``schema``, roughly, so that most requests get further than its check."""
        choose = self._random.choice
        if "$ref" in schema:
            return self._value(self._schema["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self._value(choose(schema[several]))
        if "enum" in schema or "const" in schema:
            return choose(schema.get("enum") or [schema["const"]])
        kind = schema.get("type", "string")
        if kind == "object":
            required = schema.get("required", ())
            return {
                name: self._random.choice(_GARBAGE) if name in _WORDS else self._value(inner)
                for name, inner in schema.get("properties", {}).items()
                if name in required or self._random.random() < 0.4
            }
        if kind == "array":
            return [self._value(schema.get("items", {})) for _ in range(self._random.randrange(3))]
        numbers = {"integer": [0, 1, 2, 20, 101, 10**7], "number": [0, 0.5, 1.0, 1e9], "boolean": [True, False]}
        return None if kind == "null" else choose(numbers.get(kind, self._known))


def _quoted(value: str) -> str:
    """A part of a path; slashes stay, as a client that builds addresses by hand would send them."""
    return value.replace("%", "%25").replace("?", "%3F").replace("#", "%23") or "%20"
