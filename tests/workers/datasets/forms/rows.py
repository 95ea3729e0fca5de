"""Rows as tests write them, and what became of them."""

import json
from typing import Any

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.workers.datasets.forms.parse import Parsed, parse_lines
from ft_assets.workers.datasets.forms.turns import to_messages

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": [2.5, "\u00fc"]}'}}


def parse(*rows: Any, ended: bool = True, **settings: Any) -> Parsed:
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    return parse_lines(b"\n".join(lines), FormSettings(**settings), ended=ended)


def one(row: Any, **settings: Any) -> dict[str, Any]:
    parsed = parse(row, **settings)
    assert parsed.bad.num_rows == 0, parsed.bad.to_pylist()
    (example,) = parsed.examples.to_pylist()
    return {**example, **{name: to_messages(example[name]) for name in ("messages", "chosen", "rejected")}}


def bad(row: Any, ended: bool = True, **settings: Any) -> tuple[str, str, str]:
    parsed = parse(row, ended=ended, **settings)
    assert (parsed.examples.num_rows, parsed.rows, parsed.forms) == (0, 1, {})
    (problem,) = parsed.bad.to_pylist()
    return problem["reason"], problem["field"], problem["problem"]


def turns(*said: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in said]


def chat(*roles: str) -> dict[str, Any]:
    return {"messages": turns(*((role, f"turn {index}") for index, role in enumerate(roles)))}


HI = turns(("user", "Hi"), ("assistant", "Hello"))
