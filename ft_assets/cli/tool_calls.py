"""The calls of tools in what a model wrote, in the spellings of today's templates."""

import json
import re
from collections.abc import Collection
from typing import Any

# Between a function's name and its arguments, as in ``note[ARGS]{…}``, ``note:0 {…}`` and a fenced block below a name.
_BETWEEN = r"[^{}\w]{0,12}(?:ARGS|json|\d{1,4})?[^{}\w]{0,12}"
_PARAMETER = re.compile(r"<parameter=([^>]+)>\s?(.*?)\s?</parameter>", re.DOTALL)
_DECODER = json.JSONDecoder()


def calls_in(text: str, names: Collection[str]) -> list[dict[str, Any]]:
    """``{"name", "arguments"}`` of each call of a tool of ``names``, in order: JSON objects with both, JSON behind a
    name, and ``<function=NAME><parameter=KEY>``."""
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    calls: list[dict[str, Any]] = []
    place = 0
    starts = re.compile(rf"<function=(?P<xml>{known})>|(?P<json>\{{)|\b(?P<bare>{known}){_BETWEEN}(?=\{{)")
    while found := starts.search(text, place):
        place = found.end()
        if name := found["xml"]:
            body, _, rest = text[place:].partition("</function>")
            calls.append({"name": name, "arguments": {key: _value(value) for key, value in _PARAMETER.findall(body)}})
            place = len(text) - len(rest)
            continue
        try:
            value, end = _DECODER.raw_decode(text, found.start() if found["json"] else place)
        except (ValueError, RecursionError):
            continue
        call = {"name": found["bare"], "arguments": value} if found["bare"] else _as_call(value)
        if call["name"] in names:
            calls.append(call)
            place = end
    return calls


def _as_call(value: dict[str, Any]) -> dict[str, Any]:
    given = value.get("arguments", value.get("parameters", {}))
    if isinstance(given, str):
        given = _value(given)
    name = value.get("name")
    return {"name": name if isinstance(name, str) else "", "arguments": given if isinstance(given, dict) else {}}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
