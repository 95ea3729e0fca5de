"""From a row in one of the known forms to an example, and what makes a conversation one that can be learned from."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ft_assets.datasets.rows import Example, Message, RawRow, Reason, RowProblem
from ft_assets.recipes.strict import nearest

ROLES = ("system", "user", "assistant")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Field names are shown in errors only in this form: anything else could be text of the row.
_FIELD_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]{0,39}$")


def to_example(raw: RawRow, group_by: str | None) -> Example:
    """The example in ``raw``, its texts unchanged. Raises RowProblem that names the field, never its text."""
    value = raw.value
    for name, (fields, optional, convert) in SCHEMAS.items():
        if all(field in value for field in fields):
            known = {*fields, *optional, "kind", *([group_by] if group_by else [])}
            return Example(
                row=raw.row,
                messages=convert(value),
                group=_group(value, group_by) if group_by else "",
                kind=_kind(value),
                schema=name,
                unused=tuple(sorted(key for key in value if key not in known)),
            )
    raise RowProblem(Reason.UNKNOWN_SCHEMA, "", _unknown(value))


def _from_messages(value: dict[str, Any]) -> tuple[Message, ...]:
    turns = value["messages"]
    if not isinstance(turns, list) or not turns:
        raise RowProblem(Reason.WRONG_TYPE, "messages", "this should be a list of turns, with at least two in it")
    messages = tuple(_turn(turn, f"messages[{index}]") for index, turn in enumerate(turns))
    _check_order([message["role"] for message in messages])
    return messages


def _from_prompt(value: dict[str, Any]) -> tuple[Message, ...]:
    return (
        {"role": "user", "content": _text(value["prompt"], "prompt")},
        {"role": "assistant", "content": _text(value["completion"], "completion")},
    )


def _from_alpaca(value: dict[str, Any]) -> tuple[Message, ...]:
    """Instruction and input are one user turn with a blank line between them; the input may be absent or empty."""
    instruction = _text(value["instruction"], "instruction")
    if value.get("input") not in (None, ""):
        instruction += "\n\n" + _text(value["input"], "input")
    return (
        {"role": "user", "content": instruction},
        {"role": "assistant", "content": _text(value["output"], "output")},
    )


_Convert = Callable[[dict[str, Any]], tuple[Message, ...]]
SCHEMAS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], _Convert]] = MappingProxyType(
    {
        "messages": (("messages",), (), _from_messages),
        "prompt/completion": (("prompt", "completion"), (), _from_prompt),
        "instruction/input/output": (("instruction", "output"), ("input",), _from_alpaca),
    }
)
"""Name of a form to (fields it needs, fields it may have, conversion). A row is of the first form it fits."""


def _turn(turn: Any, where: str) -> Message:
    if not isinstance(turn, dict):
        raise RowProblem(Reason.WRONG_TYPE, where, "a turn should be an object with role and content")
    for field in ("role", "content"):
        if field not in turn:
            raise RowProblem(Reason.WRONG_TYPE, f"{where}.{field}", "this field is missing")
    # Ignoring tool calls or weights would train on something else than what was uploaded.
    extra = [key for key, item in turn.items() if key not in ("role", "content") and item is not None]
    if extra:
        named = f" ({extra[0]!r})" if _FIELD_NAME.match(extra[0]) else ""
        raise RowProblem(Reason.WRONG_TYPE, where, f"a turn has role and content and nothing else{named}")
    if turn["role"] not in ROLES:
        raise RowProblem(Reason.WRONG_TYPE, f"{where}.role", f"the role should be one of {', '.join(ROLES)}")
    return {"role": turn["role"], "content": _text(turn["content"], f"{where}.content")}


def _check_order(roles: list[str]) -> None:
    """Raise RowProblem unless ``roles`` is an optional system, then user, assistant, user, … up to an assistant."""
    start = 1 if roles[0] == "system" else 0
    for index, role in enumerate(roles[start:], start):
        expected = ("user", "assistant")[(index - start) % 2]
        if role != expected:
            before = f"after {roles[index - 1]!r}" if index else "at the start"
            raise RowProblem(
                Reason.ROLE_ORDER, f"messages[{index}].role", f"{role!r} stands where {expected!r} belongs ({before})"
            )
    if roles[-1] != "assistant":
        raise RowProblem(
            Reason.ROLE_ORDER,
            f"messages[{len(roles) - 1}].role",
            f"the last turn is {roles[-1]!r}; it should be the assistant's, which is what is learned",
        )


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise RowProblem(Reason.WRONG_TYPE, field, f"this should be text, not {_TYPES[type(value)]}")
    if not value.strip():
        raise RowProblem(Reason.EMPTY_TEXT, field, "this text is empty")
    if _SURROGATE.search(value):
        raise RowProblem(Reason.BAD_TEXT, field, "this text holds half of a surrogate pair (\\ud800 to \\udfff)")
    return value


_TYPES = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def _group(value: dict[str, Any], field: str) -> str:
    """The group as text: numbers are written out, so 7 and "7" are one group."""
    group = value.get(field)
    if isinstance(group, int) and not isinstance(group, bool):
        return str(group)
    if not isinstance(group, str) or not group.strip() or _SURROGATE.search(group):
        raise RowProblem(
            Reason.NO_GROUP, field, "split.group_by names this field, and this row has no text or whole number in it"
        )
    return group


def _kind(value: dict[str, Any]) -> str:
    """The optional label that scores are broken down by; whatever is not a plain short text counts as none."""
    kind = value.get("kind")
    return kind if isinstance(kind, str) and len(kind) <= 100 and not _SURROGATE.search(kind) else ""


def _unknown(value: dict[str, Any]) -> str:
    """What the row has and what it should have, with a hint where a field is nearly right."""
    wanted = sorted({field for fields, _, _ in SCHEMAS.values() for field in fields})
    names = [key for key in value if _FIELD_NAME.match(key)][:6]
    for name in names:
        hint = nearest(name, [field for field in wanted if field not in value])
        if hint.startswith("did you mean"):
            return f"the row has {name!r}; {hint}"
    has = ", ".join(names) if names else "none that can be shown"
    return f"the row's fields ({has}) fit none of: messages; prompt and completion; instruction and output"
