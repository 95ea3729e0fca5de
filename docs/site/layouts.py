"""The accepted layouts of rows: a sample of each and what it becomes. Tests and the page of the reference read this."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import load_policy
from ft_assets.workers.datasets.forms.parse import parse_lines
from ft_assets.workers.datasets.forms.turns import to_messages

_ASK, _SAY = "Where is my invoice?", "Under Account, Invoices."
_NO = "No idea."
_CHAT = [{"role": "user", "content": _ASK}, {"role": "assistant", "content": _SAY}]
_PAIR = {"messages": _CHAT[:1], "chosen": _CHAT[1:], "rejected": [{"role": "assistant", "content": _NO}]}
_TOOL = {"name": "find", "parameters": {"type": "object", "properties": {"what": {"type": "string"}}}}
_TOOLS = [{"type": "function", "function": _TOOL}]
_FUNCTION = {"name": "find", "arguments": {"what": "invoice"}}
_CALL = {"type": "function", "function": _FUNCTION}


def _called(call_id: str = "", said: str = "", name: str = "") -> list[dict[str, Any]]:
    """The conversation with one tool call, as curation keeps it."""
    call = {"id": call_id, **_CALL} if call_id else _CALL
    answered = {"tool_call_id": call_id} if call_id else {}
    return [
        _CHAT[0],
        {"role": "assistant", "content": said, "tool_calls": [call]},
        {"role": "tool", "content": "Account, Invoices", **answered, **({"name": name} if name else {})},
        _CHAT[1],
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """One way to write rows.

    Args:
        name: for people.
        row: a sample row.
        becomes: the example's columns that are not empty; turns as messages, tools as a list.
        policy: the lines of ``dataset.yaml`` that the row needs.
    """

    name: str
    row: Mapping[str, Any]
    becomes: Mapping[str, Any] = field(default_factory=lambda: {"messages": _CHAT})
    policy: str = ""


LAYOUTS: tuple[Layout, ...] = (
    Layout(name="Messages", row={"messages": _CHAT}),
    Layout(
        name="Messages with thoughts",
        row={"messages": [_CHAT[0], {**_CHAT[1], "reasoning_content": "It is about money."}]},
        becomes={
            "messages": [
                _CHAT[0],
                {"role": "assistant", "content": f"<think>\nIt is about money.\n</think>\n\n{_SAY}"},
            ]
        },
    ),
    Layout(
        name="Messages with content as a list of parts (OpenAI, Anthropic)",
        row={
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Where is "}, {"type": "text", "text": _ASK[9:]}],
                },
                {"role": "assistant", "content": [{"type": "text", "text": _SAY}]},
            ]
        },
    ),
    Layout(
        name="Messages with tool calls (OpenAI)",
        row={
            "messages": [
                _CHAT[0],
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "find", "arguments": json.dumps(_FUNCTION["arguments"])},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "Account, Invoices"},
                _CHAT[1],
            ],
            "tools": _TOOLS,
        },
        becomes={"messages": _called("call_1"), "tools": _TOOLS},
    ),
    Layout(
        name="Messages with function_call (OpenAI, older)",
        row={
            "messages": [
                _CHAT[0],
                {
                    "role": "assistant",
                    "content": None,
                    "function_call": {"name": "find", "arguments": json.dumps(_FUNCTION["arguments"])},
                },
                {"role": "function", "name": "find", "content": "Account, Invoices"},
                _CHAT[1],
            ],
            "functions": [_TOOL],
        },
        becomes={"messages": _called(name="find"), "tools": _TOOLS},
    ),
    Layout(
        name="Messages with tool_use and tool_result (Anthropic)",
        row={
            "messages": [
                _CHAT[0],
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "I will look."},
                        {"type": "tool_use", "id": "toolu_1", "name": "find", "input": _FUNCTION["arguments"]},
                    ],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Account, Invoices"}],
                },
                _CHAT[1],
            ],
            "tools": [{"name": "find", "input_schema": _TOOL["parameters"]}],
        },
        becomes={"messages": _called("toolu_1", "I will look."), "tools": _TOOLS},
    ),
    Layout(
        name="Messages with the system prompt beside them (Anthropic)",
        row={"system": "Be brief.", "messages": _CHAT},
        becomes={"messages": [{"role": "system", "content": "Be brief."}, *_CHAT]},
        policy="form: system/messages",
    ),
    Layout(
        name="Turns with names of their own",
        row={
            "persona": "Be brief.",
            "dialog": [
                {"speaker": "customer", "body": _ASK, "at": "09:14"},
                {"speaker": "agent", "body": _SAY, "at": "09:15"},
            ],
        },
        becomes={"messages": [{"role": "system", "content": "Be brief."}, *_CHAT]},
        policy="form: system/messages\n"
        "fields: {messages: dialog, system: persona}\n"
        "turns: {role: speaker, content: body, roles: {customer: user, agent: assistant}, ignore: [at]}",
    ),
    Layout(
        name="ShareGPT",
        row={
            "conversations": [{"from": "human", "value": _ASK}, {"from": "gpt", "value": _SAY}],
            "system": "Be brief.",
        },
        becomes={"messages": [{"role": "system", "content": "Be brief."}, *_CHAT]},
    ),
    Layout(
        name="ShareGPT with function_call and observation (LLaMA-Factory)",
        row={
            "conversations": [
                {"from": "human", "value": _ASK},
                {"from": "function_call", "value": json.dumps(_FUNCTION)},
                {"from": "observation", "value": "Account, Invoices"},
                {"from": "gpt", "value": _SAY},
            ],
            "tools": json.dumps([_TOOL]),
        },
        becomes={"messages": _called(), "tools": _TOOLS},
    ),
    Layout(
        name="Logged request and response (OpenAI's API)",
        row={
            "request": {"model": "gpt-5", "messages": _CHAT[:1], "temperature": 0.2},
            "response": {
                "id": "chatcmpl-1",
                "choices": [{"index": 0, "message": {**_CHAT[1], "refusal": None}, "finish_reason": "stop"}],
                "usage": {"total_tokens": 31},
            },
        },
    ),
    Layout(name="Prompt and completion", row={"prompt": _ASK, "completion": _SAY}),
    Layout(name="Prompt and completion as messages (TRL)", row={"prompt": _CHAT[:1], "completion": _CHAT[1:]}),
    Layout(
        name="Alpaca",
        row={"instruction": "Answer the customer.", "input": _ASK, "output": _SAY},
        becomes={"messages": [{"role": "user", "content": f"Answer the customer.\n\n{_ASK}"}, _CHAT[1]]},
    ),
    Layout(
        name="Columns of other names",
        row={"question": _ASK, "answer": _SAY},
        policy="fields: {prompt: question, completion: answer}",
    ),
    Layout(
        name="A prompt of several columns, joined by the policy",
        row={"subject": "Invoice", "body": _ASK, "answer": _SAY},
        becomes={"messages": [{"role": "user", "content": f"Invoice\n\n{_ASK}"}, _CHAT[1]]},
        policy="fields: {prompt: [subject, body], completion: answer}",
    ),
    Layout(name="Pairs", row={"prompt": _ASK, "chosen": _SAY, "rejected": _NO}, becomes=_PAIR),
    Layout(
        name="Pairs as whole conversations (TRL)",
        row={"chosen": _CHAT, "rejected": [_CHAT[0], {"role": "assistant", "content": _NO}]},
        becomes=_PAIR,
    ),
    Layout(
        name="Pairs as dialogues (HH-RLHF)",
        row={
            "chosen": f"\n\nHuman: {_ASK}\n\nAssistant: {_SAY}",
            "rejected": f"\n\nHuman: {_ASK}\n\nAssistant: {_NO}",
        },
        becomes=_PAIR,
    ),
    Layout(
        name="ShareGPT pairs (LLaMA-Factory)",
        row={
            "conversations": [{"from": "human", "value": _ASK}],
            "chosen": {"from": "gpt", "value": _SAY},
            "rejected": {"from": "gpt", "value": _NO},
        },
        becomes=_PAIR,
    ),
    Layout(
        name="Messages and two answers",
        row={"messages": _CHAT[:1], "chosen": _CHAT[1], "rejected": {"role": "assistant", "content": _NO}},
        becomes=_PAIR,
    ),
    Layout(
        name="Alpaca pairs (LLaMA-Factory)",
        row={"instruction": _ASK, "input": "", "chosen": _SAY, "rejected": _NO},
        becomes=_PAIR,
    ),
    Layout(
        name="Preference format of OpenAI",
        row={
            "input": {"messages": _CHAT[:1], "tools": [], "parallel_tool_calls": True},
            "preferred_output": _CHAT[1:],
            "non_preferred_output": [{"role": "assistant", "content": _NO}],
        },
        becomes=_PAIR,
    ),
    Layout(
        name="Thumbs up or down (TRL)",
        row={"prompt": _ASK, "completion": _NO, "label": False},
        becomes={"messages": _CHAT[:1], "rejected": [{"role": "assistant", "content": _NO}]},
        policy="form: unpaired_preference",
    ),
    Layout(
        name="Thumbs up or down in other words",
        row={"asked": _ASK, "answered": _NO, "thumb": "down"},
        becomes={"messages": _CHAT[:1], "rejected": [{"role": "assistant", "content": _NO}]},
        policy="form: unpaired_preference\n"
        "fields: {prompt: asked, completion: answered, label: thumb}\n"
        "labels: {liked: [up], disliked: [down]}",
    ),
    Layout(
        name="Thumbs up or down for the last turn of a conversation",
        row={"messages": _CHAT, "label": True},
        becomes={"messages": _CHAT[:1], "chosen": _CHAT[1:]},
        policy="form: messages/label",
    ),
    Layout(
        name="Thumbs up or down for Alpaca (LLaMA-Factory)",
        row={"instruction": _ASK, "input": "", "output": _SAY, "kto_tag": True},
        becomes={"messages": _CHAT[:1], "chosen": _CHAT[1:]},
        policy="form: alpaca/label\nfields: {label: kto_tag}",
    ),
    Layout(name="Text", row={"text": "Call me Ishmael."}, becomes={"text": "Call me Ishmael."}),
)


def read(layout: Layout) -> dict[str, Any]:
    """What curation makes of the layout's row: the columns that are not empty. Empty if the row is refused."""
    form = FormSettings.of(load_policy(layout.policy, layout.name))
    examples = parse_lines(json.dumps(layout.row).encode(), form, ended=True).examples.to_pylist()
    found: dict[str, Any] = {}
    for example in examples:
        found = {name: to_messages(example[name]) for name in ("messages", "chosen", "rejected") if example[name]}
        found |= {"text": example["text"]} if example["text"] else {}
        found |= {"tools": json.loads(example["tools"])} if example["tools"] else {}
    return found


def layouts_page() -> str:
    """The page of the reference."""
    lines = [
        "# Layouts of rows",
        "",
        "A sample row of every layout that `ft dataset add` reads, and what curation makes of it. Where a policy is",
        "shown, put its lines into a `dataset.yaml`; all others are recognised.",
        "",
    ]
    for layout in LAYOUTS:
        lines += [f"## {layout.name}", "", *_block("json", json.dumps(layout.row, ensure_ascii=False, indent=1))]
        if layout.policy:
            lines += ["with the policy", "", *_block("yaml", layout.policy)]
        lines += ["becomes", "", *_block("json", json.dumps(layout.becomes, ensure_ascii=False, indent=1))]
    return "\n".join(lines)


def _block(language: str, text: str) -> list[str]:
    return [f"```{language}", text, "```", ""]
