"""A template that leaves out one of several calls, a name or an argument is found out."""

import json
import re
from typing import Any

import pytest

from ft_assets.workers.templates.calls import lost_call, moved_words
from ft_assets.workers.templates.template import ChatTemplate

BEFORE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
AFTER = "{% endfor %}"
ALL = "{% for c in m.tool_calls or [] %}<call>{{ c.function | tojson }}</call>{% endfor %}"
XML = (
    "{% for c in m.tool_calls or [] %}<f={{ c.function.name }}>{% for k, v in c.function.arguments.items() %}"
    "<{{ k }}>{{ v if v is string else v | tojson }}</{{ k }}>{% endfor %}</f>{% endfor %}"
)
FIRST = (
    "{% if m.tool_calls %}{% set c = m.tool_calls[0] %}to={{ c.function.name }} {{ c.function.arguments }}{% endif %}"
)
BY_ID = "{% for c in m.tool_calls or [] %}<call>{{ c.id }}{{ c.function.arguments | tojson }}</call>{% endfor %}"
NO_ARGUMENTS = "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}</call>{% endfor %}"
FIRST_ARGUMENT = (
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}({{ c.function.arguments.values() | first }}){% endfor %}"
)
STRICT = (
    "{% for c in m.tool_calls or [] %}{% if c.function.name not in ['weather', 'time'] %}"
    "{{ raise_exception('unknown') }}{% endif %}<call>{{ c.function.name }}</call>{% endfor %}"
)
STRICT_FIRST = (
    "{% if m.tool_calls %}{% if m.tool_calls[0].function.name != 'weather' %}{{ raise_exception('unknown') }}"
    + ("{% endif %}<call>weather</call>{% endif %}")
)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": f"id-{name}", "type": "function", "function": {"name": name, "arguments": arguments}}


PARALLEL = [call("weather", city="Oslo", days=2), call("time", zone={"of": ["Oslo", None, True]})]


def lost(source: str, calls: list[dict[str, Any]]) -> str:
    template = ChatTemplate(BEFORE + source + AFTER, name="t", variables={}, control=re.compile(r"<\\|.*?\\|>"))
    messages = [{"role": "user", "content": "Oslo?"}, {"role": "assistant", "content": "", "tool_calls": calls}]
    return lost_call(template, messages, None, "row 1")


@pytest.mark.parametrize("source", [ALL, XML, "{{ m.tool_calls }}"])
def test_templates_that_show_all_lose_nothing(source: str) -> None:
    assert lost(source, PARALLEL) == ""
    assert lost(source, [call("time")]) == ""


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (FIRST, "the function's name of tool call 2 of message 2"),
        (BY_ID, "the function's name of tool call 1 of message 2"),
        (NO_ARGUMENTS, "the argument `city` of tool call 1 of message 2"),
        (FIRST_ARGUMENT, "the argument `days` of tool call 1 of message 2"),
        (STRICT_FIRST, "tool call 2 of message 2"),
    ],
)
def test_what_is_left_out_is_named(source: str, what: str) -> None:
    assert lost(source, PARALLEL) == what


def test_a_template_that_knows_its_functions_is_asked_call_by_call() -> None:
    assert lost(STRICT, [call("weather"), call("time")]) == ""


def test_without_calls_nothing_is_lost() -> None:
    template = ChatTemplate("{{ messages[0].content }}", name="t", variables={}, control=re.compile("x"))
    assert lost_call(template, [{"role": "user", "content": "a"}], None, "row 1") == ""


@pytest.mark.parametrize("words", ["Oslo", 'a "quoted" word', "Ünicode"])
def test_a_template_that_joins_arguments_as_text_gets_them_as_json(words: str) -> None:
    joins = (
        "{% for c in m.tool_calls or [] %}{{ '<call>' + c.function.name + ' ' + c.function.arguments + '</call>' }}"
        "{% endfor %}"
    )
    made = [call("weather", city=words, days=2)]
    template = ChatTemplate(BEFORE + joins + AFTER, name="t", variables={}, control=re.compile(r"<\\|.*?\\|>"))
    messages = [{"role": "user", "content": "Oslo?"}, {"role": "assistant", "content": "", "tool_calls": made}]
    text = template.render(messages, where="row 1")
    assert json.loads(text.partition("weather ")[2].removesuffix("</call>")) == {"city": words, "days": 2}
    assert lost_call(template, messages, None, "row 1") == ""


def test_words_that_a_template_moves_behind_the_result_of_their_call_are_found() -> None:
    moved = (
        "{% for m in messages %}{% if m.tool_calls %}"
        + ALL
        + "{% else %}<|{{ m.role }}|>{{ m.content }}{% endif %}"
        + "{% if m.role == 'tool' %}{{ messages[loop.index0 - 1].content }}{% endif %}{% endfor %}"
    )
    usual = BEFORE + ALL + AFTER
    chats = [
        {"role": "user", "content": "ask"},
        {"role": "assistant", "content": "one moment", "tool_calls": [call("weather", town="Rome")]},
        {"role": "tool", "content": "sunny"},
    ]
    templates = [ChatTemplate(text, name="t", variables={}, control=re.compile("x")) for text in (moved, usual)]
    assert [moved_words(template, chats, None, "") for template in templates] == [2, 0]
