"""Content as a list of parts, as OpenAI and Anthropic write it: thoughts, texts, tool calls and tool results."""

from typing import Any, NamedTuple

from ft_assets.workers.datasets.forms.reasons import NAME, Reason, RowProblem
from ft_assets.workers.datasets.forms.texts import TYPES

_KNOWN = "text, thinking, tool_use and tool_result"


class Result(NamedTuple):
    """A tool's result; ``content`` is a text."""

    call_id: str
    content: str


class Parts(NamedTuple):
    """The parts of one turn's content.

    Args:
        text: the texts, joined without anything between them; None if there are none.
        calls: tool calls as OpenAI writes them.
        results: results of tools, which come before the text.
        thoughts: those of the assistant, which come first; "" if there are none.
    """

    text: str | None
    calls: list[dict[str, Any]]
    results: list[Result]
    thoughts: str = ""


def read_parts(parts: list[Any], role: str, field: str) -> Parts:
    """The ``parts`` of a turn of ``role``.

    Raises RowProblem for a part that is not a thought, text, tool call or result, and for parts in an order that turns
    cannot have.
    """
    pieces: list[str] = []
    calls: list[dict[str, Any]] = []
    results: list[Result] = []
    thoughts: list[str] = []
    for index, part in enumerate(parts):
        where = f"{field}[{index}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            if calls:
                raise RowProblem(Reason.TOOL_CALLS, where, "a turn's text comes before its tool calls, not after them")
            pieces.append(_text(part, "text", where))
        elif kind == "thinking":
            _only(role, "assistant", kind, where)
            if pieces or calls:
                raise RowProblem(Reason.WRONG_TYPE, where, "a turn's thoughts come before its text and tool calls")
            thoughts.append(_text(part, "thinking", where))
        elif kind == "tool_use":
            _only(role, "assistant", kind, where)
            function = {"name": part.get("name"), "arguments": part.get("input")}
            calls.append({"id": part.get("id"), "function": function})
        elif kind == "tool_result":
            _only(role, "user", kind, where)
            if pieces:
                raise RowProblem(Reason.TOOL_CALLS, where, "a turn's tool results come before its text, not after it")
            results.append(_result(part, where))
        else:
            named = f"type {kind!r}" if isinstance(kind, str) and NAME.fullmatch(kind) else "another type"
            raise RowProblem(Reason.WRONG_TYPE, where, f"a part of {named} cannot be used; only {_KNOWN} can")
    return Parts("".join(pieces) if pieces else None, calls, results, "\n".join(thoughts))


def has_tool_parts(turns: list[Any]) -> bool:
    """Whether tool calls or results are parts of one of the ``turns``, as only Anthropic writes them."""
    contents = (turn.get("content") for turn in turns if isinstance(turn, dict))
    parts = (part for content in contents if isinstance(content, list) for part in content)
    return any(isinstance(part, dict) and part.get("type") in ("tool_use", "tool_result") for part in parts)


def _only(role: str, wanted: str, kind: str, where: str) -> None:
    if role != wanted:
        raise RowProblem(Reason.TOOL_CALLS, where, f"a part of type {kind!r} belongs in turns of {wanted!r} only")


def _text(part: dict[str, Any], name: str, where: str) -> str:
    text = part.get(name)
    if text is not None and not isinstance(text, str):
        raise RowProblem(Reason.WRONG_TYPE, f"{where}.{name}", f"this should be text, not {TYPES[type(text)]}")
    return text or ""


def _result(part: dict[str, Any], where: str) -> Result:
    if part.get("is_error"):
        problem = "is_error is not supported: write the error into the result's text, and remove is_error"
        raise RowProblem(Reason.TOOL_CALLS, f"{where}.is_error", problem)
    call_id, content = part.get("tool_use_id"), part.get("content")
    if not isinstance(call_id, str) or not call_id:
        raise RowProblem(Reason.TOOL_CALLS, f"{where}.tool_use_id", "this should be the id of a tool call")
    if isinstance(content, list):
        inner = read_parts(content, "tool", f"{where}.content")
        content = inner.text
    if content is None:
        content = ""
    if not isinstance(content, str):
        raise RowProblem(Reason.WRONG_TYPE, f"{where}.content", f"this should be text, not {TYPES[type(content)]}")
    return Result(call_id, content)
