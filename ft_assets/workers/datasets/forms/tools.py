"""Tool calls and tool definitions, in the one shape that chat templates understand."""

import json
from typing import Any

from ft_assets.workers.datasets.forms.decode import decode_object
from ft_assets.workers.datasets.forms.reasons import Reason, RowProblem
from ft_assets.workers.datasets.forms.texts import refuse_surrogates

_ANTHROPIC = {"input_schema": "parameters"}
# Fields of Anthropic's API that are not part of a tool's definition.
_NOT_LEARNED = ("type", "cache_control")


def to_json(value: Any, field: str) -> str:
    """``value`` as compact JSON with its keys in the order of the upload and its texts unchanged."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    refuse_surrogates(text, field)
    return text


def read_calls(value: Any, field: str) -> tuple[str, list[str]]:
    """The tool calls of a turn as canonical JSON, and their ids ("" for calls without).

    A call is ``{"id", "type", "function": {"name", "arguments"}}``; arguments come as an object or as the JSON text of
    one, and ``function`` may be left out around name and arguments.
    """
    if not isinstance(value, list) or not value:
        raise RowProblem(Reason.WRONG_TYPE, field, "this should be a non-empty list of tool calls")
    calls = [_read_call(call, f"{field}[{index}]") for index, call in enumerate(value)]
    ids = [call["id"] for call in calls]
    named = [name for name in ids if name]
    if len(set(named)) < len(named):
        raise RowProblem(Reason.TOOL_CALLS, field, "two of these tool calls have the same id")
    if named and len(named) < len(ids):
        raise RowProblem(Reason.TOOL_CALLS, field, "some of these tool calls have an id and some do not")
    return to_json(calls, field), ids


def _read_call(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RowProblem(Reason.WRONG_TYPE, field, "a tool call should be an object with a function")
    if value.get("type") not in (None, "function"):
        raise RowProblem(Reason.WRONG_TYPE, f"{field}.type", "the type of a tool call should be function")
    name = value.get("id")
    if name is not None and not isinstance(name, str):
        raise RowProblem(Reason.WRONG_TYPE, f"{field}.id", "the id of a tool call should be text")
    wrapped = "function" in value
    function = read_function(value["function"] if wrapped else value, f"{field}.function" if wrapped else field)
    return {"id": name or "", "type": "function", "function": function}


def read_function(value: Any, field: str) -> dict[str, Any]:
    """``{"name", "arguments"}`` of a call, the arguments as an object."""
    if not isinstance(value, dict):
        raise RowProblem(Reason.WRONG_TYPE, field, "this should be an object with name and arguments")
    name = value.get("name")
    if not isinstance(name, str) or not name.strip():
        raise RowProblem(Reason.WRONG_TYPE, f"{field}.name", "a tool call should name its function")
    arguments = value.get("arguments")
    if isinstance(arguments, str):
        arguments = parse_inner(arguments, f"{field}.arguments") if arguments.strip() else {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        problem = "the arguments should be an object, or the JSON text of one"
        raise RowProblem(Reason.WRONG_TYPE, f"{field}.arguments", problem)
    return {"name": name, "arguments": arguments}


def parse_inner(text: str, field: str) -> dict[str, Any]:
    """The JSON object in ``text``, itself a text of the row, by the same strict rules as the row."""
    refuse_surrogates(text, field)
    try:
        return decode_object(text.encode())
    except RowProblem as bad:
        raise RowProblem(Reason.NOT_JSON, field, bad.problem.replace("the row", "this text")) from None


def read_tools(value: Any, field: str, *, anthropic: bool = False) -> str:
    """Tool definitions as canonical JSON: ``[{"type": "function", "function": {…}}]``; "" if there are none.

    They come as a list or as the JSON text of one; a bare function (name, description, parameters) is wrapped. With
    ``anthropic``, its parameters may be named ``input_schema``.
    """
    if isinstance(value, str) and value.strip():
        wrapped = parse_inner(f'{{"tools":{value}}}', field)
        value = wrapped["tools"] if len(wrapped) == 1 else value
    if value in (None, "", []):
        return ""
    if not isinstance(value, list):
        raise RowProblem(Reason.WRONG_TYPE, field, "this should be a list of tool definitions")
    tools = []
    for index, tool in enumerate(value):
        where = f"{field}[{index}]"
        if not isinstance(tool, dict):
            raise RowProblem(Reason.WRONG_TYPE, where, "a tool definition should be an object")
        function = tool.get("function", tool)
        if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"].strip():
            raise RowProblem(Reason.WRONG_TYPE, where, "a tool definition should name its function")
        if anthropic and "input_schema" in function:
            function = {_ANTHROPIC.get(key, key): item for key, item in function.items() if key not in _NOT_LEARNED}
        tools.append(tool if "function" in tool else {"type": "function", "function": function})
    return to_json(tools, field)
