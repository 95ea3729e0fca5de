"""Proof that a rendering shows every tool call: its function's name, and each of its arguments.

A second rendering puts a numbered mark after each of them; what a template leaves out lacks its mark. Some templates
render only the first of several calls, or a call's id in place of the function's name.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ft_assets.workers.templates.marks import free_marks, located
from ft_assets.workers.templates.rendering import Messages, NotRendered, Tools
from ft_assets.workers.templates.template import ChatTemplate, strings


def lost_call(template: ChatTemplate, messages: Messages, tools: Tools, where: str) -> str:
    """The first part of a tool call that the template leaves out, in words; "" if nothing is missing."""
    free = free_marks("".join(word for part in (*messages, *(tools or ())) for word in strings(part)), 1)
    if not free or not any(message.get("tool_calls") for message in messages):
        return ""
    mark, numbers = free[0], itertools.count()
    named: dict[int, str] = {}

    def marked(value: Any, what: str) -> Any:
        if isinstance(value, Mapping):
            return {key: marked(item, what) for key, item in value.items()}
        if isinstance(value, list):
            return [marked(item, what) for item in value]
        named[number := next(numbers)] = what
        return f"{value}{mark}{number}{mark}"

    def calls(message: Mapping[str, Any], place: int) -> Iterator[dict[str, Any]]:
        for count, call in enumerate(message["tool_calls"], start=1):
            whose, function = f"of tool call {count} of message {place}", call["function"]
            name = marked(function["name"], f"the function's name {whose}")
            arguments = {
                key: marked(value, f"the argument `{key}` {whose}") for key, value in function["arguments"].items()
            }
            yield {**call, "function": {**function, "name": name, "arguments": arguments}}

    shown = [
        {**message, "tool_calls": list(calls(message, place))} if message.get("tool_calls") else message
        for place, message in enumerate(messages, start=1)
    ]
    try:
        text = template.render(shown, where=where, tools=tools)
    except NotRendered:
        return _by_leaving_out(template, messages, tools, where)
    # As it is, or as JSON writes it.
    written = rf"(?:{mark}|\\+u{ord(mark):04x})"
    found = {int(number) for number in re.findall(rf"{written}(\d+){written}", text, re.IGNORECASE)}
    return next((words for number, words in named.items() if number not in found), "")


def moved_words(template: ChatTemplate, messages: Messages, tools: Tools, where: str) -> int:
    """Number (from 1) of the first message whose text beside its tool calls is rendered after the next message's text;
    0 if there is none."""

    def render(marked: Messages) -> str:
        return template.render(marked, where=where, tools=tools)

    for place, message in enumerate(messages[1:]):
        said, beside = str(messages[place].get("content") or ""), str(message.get("content") or "")
        if not messages[place].get("tool_calls") or not said.strip() or not beside.strip():
            continue
        found = located(render, messages, {place: said, place + 1: beside}, render(messages))
        # A content of nothing but thoughts has no place where the template shows them elsewhere.
        if found.get(place) and found.get(place + 1) and found[place][0] > found[place + 1][0]:
            return place + 1
    return 0


def _by_leaving_out(template: ChatTemplate, messages: Messages, tools: Tools, where: str) -> str:
    """``lost_call`` of a template that refuses marked calls: it shows a call if the rendering changes without it."""
    text = template.render(messages, where=where, tools=tools)
    for place, message in enumerate(messages, start=1):
        every = message.get("tool_calls") or ()
        for count in range(1, len(every) + 1):
            fewer = [*every[: count - 1], *every[count:]]
            changed = [{**each, "tool_calls": fewer} if each is message else each for each in messages]
            try:
                if template.render(changed, where=where, tools=tools) == text:
                    return f"tool call {count} of message {place}"
            except NotRendered:
                # A template that refuses the conversation without a call uses it.
                continue
    return ""
