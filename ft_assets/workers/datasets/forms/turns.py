"""Turns of a conversation: read from any spelling, checked for a trainable order, and written back as messages."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from ft_assets.workers.datasets.forms.parts import Parts, read_parts
from ft_assets.workers.datasets.forms.reasons import NAME, Reason, RowProblem
from ft_assets.workers.datasets.forms.texts import TextReader, is_blank, refuse_surrogates
from ft_assets.workers.datasets.forms.tools import parse_inner, read_calls, read_function, to_json

ROLES = ("system", "user", "assistant", "tool")
SHAREGPT_ROLES: Mapping[str, str] = MappingProxyType(
    {
        "human": "user",
        "user": "user",
        "gpt": "assistant",
        "assistant": "assistant",
        "chatgpt": "assistant",
        "bing": "assistant",
        "bard": "assistant",
        "model": "assistant",
        "system": "system",
        "tool": "tool",
        "observation": "tool",
        "function_response": "tool",
        "function_call": "assistant",
    }
)
"""Maps ``from`` values in ShareGPT conversations to roles."""

# LLaMA-Factory's speakers that also occur as ``role``; the content is then that of a ShareGPT turn.
_SPOKEN_ROLES = ("function_call", "observation", "function_response")
_MAX_NAMES = 6
_NOTHING: Sequence[Any] = (None, "", [], {})
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""What servers call the thoughts that an answer follows from."""
TURN_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", "function_call", "weight", *THOUGHTS})
"""The fields of a turn that are read."""
_OPEN, _CLOSE = "<think>", "</think>"


class Turn(NamedTuple):
    """One turn, with the fields of TURN in their order."""

    role: str
    content: str
    tool_calls: str = ""
    tool_call_id: str = ""
    name: str = ""


class Placed(NamedTuple):
    """Turns, and each turn's place in the row (for errors)."""

    turns: list[Turn]
    names: list[str]


def read_turns(value: Any, where: str, texts: TextReader) -> Placed:
    """The turns in the list ``value``, each by itself; ``check_order`` checks their order.

    A turn has role and content, or ShareGPT's from and value. Each tool result in an Anthropic message becomes a turn.
    Thoughts in a field of their own begin the content, as ``<think>…</think>``: renderings put them where the template
    has them.
    """
    if not isinstance(value, list) or not value:
        raise RowProblem(Reason.WRONG_TYPE, where, "this should be a non-empty list of turns")
    placed = Placed([], [])
    for index, turn in enumerate(value):
        name = f"{where}[{index}]"
        if isinstance(turn, dict) and "from" in turn:
            read = [_sharegpt_turn(turn, name, texts)]
        else:
            read = _turns_of(turn, name, texts, first=index == 0)
        placed.turns.extend(read)
        placed.names.extend([name] * len(read))
    return placed


def _turns_of(turn: Any, where: str, texts: TextReader, *, first: bool) -> list[Turn]:
    """The one turn of a message, after the tool results in it."""
    if not isinstance(turn, dict):
        raise RowProblem(Reason.WRONG_TYPE, where, "a turn should be an object with role and content")
    if "role" not in turn:
        raise RowProblem(Reason.WRONG_TYPE, f"{where}.role", f"this field is missing{_has(turn)}")
    if turn["role"] in _SPOKEN_ROLES and turn.keys() <= {"role", "content", "weight"}:
        return [_sharegpt_turn({**turn, "from": turn["role"], "value": turn.get("content")}, where, texts)]
    role = _role(turn["role"], f"{where}.role", first)
    thoughts = _thoughts(turn, role, where, texts)
    # Ignoring weights or pictures would train on something other than the upload.
    extra = [key for key, item in turn.items() if key not in TURN_FIELDS and item not in _NOTHING]
    if extra:
        named = f" ({extra[0]!r})" if NAME.fullmatch(extra[0]) else ""
        problem = (
            "a turn has role, content, tool_calls, tool_call_id, name and reasoning_content, and nothing else" + named
        )
        raise RowProblem(Reason.WRONG_TYPE, where, problem)
    if turn.get("weight") not in (None, 1) or turn.get("weight") is True:
        problem = "weights of turns are not supported: remove the row, or the turns after the last one to train on"
        raise RowProblem(Reason.WRONG_TYPE, f"{where}.weight", problem)
    calls, content, results = _calls(turn, role, where), turn.get("content"), []
    if isinstance(content, list):
        parts = read_parts(content, role, f"{where}.content")
        content, calls = parts.text, _with_parts(calls, parts, where)
        thoughts = _one_of([thoughts, texts.maybe_empty(parts.thoughts, f"{where}.content")], where)
        results = [
            Turn("tool", texts.maybe_empty(given.content, f"{where}.content"), tool_call_id=given.call_id)
            for given in parts.results
        ]
        if results and content is None:
            return results
    if calls and content in (None, ""):
        content = ""
    elif "content" not in turn:
        raise RowProblem(Reason.WRONG_TYPE, f"{where}.content", "this field is missing")
    elif role == "tool":
        content = texts.maybe_empty(content, f"{where}.content")
    else:
        content = texts.text(content, f"{where}.content")
    content = _behind(thoughts, content, where)
    said = Turn(role, content, calls, _label(turn, "tool_call_id", where), _label(turn, "name", where))
    return [*results, said]


def _thoughts(turn: dict[str, Any], role: str, where: str, texts: TextReader) -> str:
    """The thoughts in the turn's own field; "" if it has none."""
    there = [name for name in THOUGHTS if turn.get(name) not in _NOTHING]
    if there and role != "assistant":
        raise RowProblem(Reason.WRONG_TYPE, f"{where}.{there[0]}", "only the assistant's turns have thoughts")
    return _one_of([texts.maybe_empty(turn[name], f"{where}.{name}") for name in there], where)


def _one_of(thoughts: Sequence[str], where: str) -> str:
    """Servers write them in two fields for clients of two ages."""
    found = {each for each in thoughts if not is_blank(each)}
    if len(found) > 1:
        raise RowProblem(Reason.WRONG_TYPE, where, "this turn has its thoughts in two places, and they differ")
    return found.pop() if found else ""


def _behind(thoughts: str, content: str, where: str) -> str:
    """``content`` behind ``thoughts``, if there are some."""
    if not thoughts:
        return content
    if _CLOSE in thoughts or content.lstrip().startswith(_OPEN):
        problem = f"this turn has thoughts in a separate field, and {_OPEN} or {_CLOSE} in its text as well"
        raise RowProblem(Reason.WRONG_TYPE, where, problem)
    return f"{_OPEN}\n{thoughts.strip(chr(10))}\n{_CLOSE}\n\n{content}"


def _with_parts(calls: str, parts: Parts, where: str) -> str:
    """The turn's tool calls, from its parts or beside them, as canonical JSON."""
    if not parts.calls:
        return calls
    if calls:
        raise RowProblem(
            Reason.TOOL_CALLS, f"{where}.content", "this turn has tool calls both in its parts and outside them"
        )
    return read_calls(parts.calls, f"{where}.content")[0]


def _role(value: Any, field: str, first: bool) -> str:
    if value == "developer":
        if first:  # OpenAI's newer name for a system turn
            return "system"
        raise RowProblem(Reason.ROLE_ORDER, field, "'developer' is read as 'system', which may only be the first turn")
    if value == "function":  # as results were called before tools existed
        return "tool"
    if value not in ROLES:
        hint = SHAREGPT_ROLES.get(value, "") if isinstance(value, str) else ""
        did = f"; did you mean {hint!r}?" if hint else ""
        said = f", not {value!r}" if isinstance(value, str) and NAME.fullmatch(value) and not hint else ""
        raise RowProblem(Reason.WRONG_TYPE, field, f"the role should be one of {', '.join(ROLES)}{said}{did}")
    return str(value)


def _has(turn: dict[str, Any]) -> str:
    names = [name for name in turn if NAME.fullmatch(name)][:_MAX_NAMES]
    return f"; the turn has {', '.join(names)}" if names else ""


def _calls(turn: dict[str, Any], role: str, where: str) -> str:
    """The turn's tool calls as canonical JSON; an old ``function_call`` is one call without an id."""
    for field in ("tool_calls", "function_call"):
        if turn.get(field) in (None, []):
            continue
        if role != "assistant":
            raise RowProblem(Reason.TOOL_CALLS, f"{where}.{field}", "only the assistant calls tools")
        if field == "tool_calls":
            return read_calls(turn[field], f"{where}.{field}")[0]
        function = read_function(turn[field], f"{where}.{field}")
        return to_json([{"id": "", "type": "function", "function": function}], f"{where}.{field}")
    return ""


def _label(turn: dict[str, Any], field: str, where: str) -> str:
    value = turn.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RowProblem(Reason.WRONG_TYPE, f"{where}.{field}", "this should be text")
    refuse_surrogates(value, f"{where}.{field}")
    return value


def _sharegpt_turn(turn: dict[str, Any], where: str, texts: TextReader) -> Turn:
    speaker = turn["from"]
    if not isinstance(speaker, str) or speaker not in SHAREGPT_ROLES:
        known = ", ".join(SHAREGPT_ROLES)
        raise RowProblem(Reason.WRONG_TYPE, f"{where}.from", f"the speaker should be one of {known}")
    if "value" not in turn:
        raise RowProblem(Reason.WRONG_TYPE, f"{where}.value", "this field is missing")
    if turn.get("weight") not in (None, 1) or turn.get("weight") is True:
        raise RowProblem(Reason.WRONG_TYPE, f"{where}.weight", "weights of turns are not supported: remove the row")
    role, value = SHAREGPT_ROLES[speaker], turn["value"]
    thoughts = _thoughts(turn, role, where, texts)
    if speaker == "function_call":
        return Turn(role, _behind(thoughts, "", where), _written_calls(value, f"{where}.value"))
    if role == "tool":
        return Turn(role, texts.maybe_empty(value, f"{where}.value"))
    return Turn(role, _behind(thoughts, texts.text(value, f"{where}.value"), where))


def _written_calls(value: Any, field: str) -> str:
    """Calls as ShareGPT has them: the JSON text of ``{"name", "arguments"}``, or of a list of such objects."""
    if isinstance(value, str):
        wrapped = parse_inner(f'{{"calls":{value}}}', field)
        value = wrapped["calls"] if len(wrapped) == 1 else None
    return read_calls(value if isinstance(value, list) else [value], field)[0]


def check_order(turns: Sequence[Turn], names: Sequence[str], *, prompt_only: bool = False) -> None:
    """Raise RowProblem unless the turns have an order that can be trained on.

    That is: an optional system turn, then user and assistant alternating. After an assistant turn with tool calls come
    the tools' results and the assistant again. The last turn is the assistant's. ``names`` are the turns' places for
    errors. ``prompt_only`` means a prompt: it ends where the assistant's turn would come.
    """
    expected: tuple[str, ...] = ("system", "user")
    before = "at the start"
    calls: list[str] = []
    for turn, name in zip(turns, names, strict=True):
        role = turn.role
        if role not in expected:
            wanted = " or ".join(repr(one) for one in expected if one != "system")
            raise RowProblem(Reason.ROLE_ORDER, f"{name}.role", f"{role!r} stands where {wanted} belongs ({before})")
        if turn.tool_call_id and role != "tool":
            raise RowProblem(Reason.TOOL_CALLS, f"{name}.tool_call_id", "only a tool's turn answers a tool call")
        if role == "tool":
            _answer(turn, calls, name)
            # Calls with ids are all answered before the assistant continues; without ids, at most as many answers as
            # calls.
            expected = ("tool",) if calls and any(calls) else ("tool", "assistant") if calls else ("assistant",)
        elif role == "assistant":
            calls = [call["id"] for call in json.loads(turn.tool_calls)] if turn.tool_calls else []
            expected = ("tool",) if calls else ("user",)
        else:
            expected = ("user",) if role == "system" else ("assistant",)
        before = f"after {role!r}"
    if prompt_only:
        if "assistant" not in expected:
            problem = f"the prompt ends with {turns[-1].role!r}; the assistant's turn should come next"
            raise RowProblem(Reason.ROLE_ORDER, f"{names[-1]}.role", problem)
    elif turns[-1].role != "assistant":
        problem = f"the last turn is {turns[-1].role!r}; it should be the assistant's, which is trained on"
        raise RowProblem(Reason.ROLE_ORDER, f"{names[-1]}.role", problem)


def _answer(turn: Turn, calls: list[str], name: str) -> None:
    """Remove the call that ``turn`` answers from the open ``calls``."""
    if turn.tool_call_id not in calls:
        if turn.tool_call_id:
            problem = "no unanswered tool call before this turn has this id"
        else:
            problem = "this turn should have the id of the tool call that it answers"
        raise RowProblem(Reason.TOOL_CALLS, f"{name}.tool_call_id", problem)
    calls.remove(turn.tool_call_id)


def to_messages(turns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turns read back from Parquet (TURN structs) as messages for a chat template.

    Fields that are "" are left out, except the content. ``tool_calls`` becomes the list that its JSON encodes (without
    ids if it has none). ``[{"role": "user", "content": "Hi", "name": "", …}]`` gives
    ``[{"role": "user", "content": "Hi"}]``.
    """
    messages = []
    for turn in turns:
        message: dict[str, Any] = {"role": turn["role"], "content": turn["content"]}
        if turn.get("tool_calls"):
            calls = json.loads(turn["tool_calls"])
            message["tool_calls"] = [{key: item for key, item in call.items() if item != ""} for call in calls]
        for field in ("tool_call_id", "name"):
            if turn.get(field):
                message[field] = turn[field]
        messages.append(message)
    return messages
