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
BY_TYPE = BY_ID.replace("c.id", "c.type")
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
        (BY_TYPE, "the function's name of tool call 1 of message 2"),
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


# As Kimi K2's: the id stands in place of the name, and the result says whom it answers.
KIMI = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'tool' %}## {{ m.tool_call_id }}\n{% endif %}"
    "{{ m.content }}" + BY_ID + AFTER
)
# As Mistral's: other ids than of nine letters and digits are refused.
NINE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}"
    "{{ raise_exception('nine') }}{% endif %}<call>{{ c.id }} {{ c.function | tojson }}</call>{% endfor %}"
    "{% if m.role == 'tool' %}[{{ m.tool_call_id }}]{% endif %}{% endfor %}"
)


def two_rounds(*ids: str) -> list[dict[str, Any]]:
    """Two calls at once, answered the other way round, and a third."""
    first, second, third = ids
    both = [{**each, "id": call_id} for each, call_id in zip(PARALLEL, (first, second), strict=True)]
    return [
        {"role": "user", "content": "ask"},
        {"role": "assistant", "content": "", "tool_calls": both},
        {"role": "tool", "content": "noon", "tool_call_id": second},
        {"role": "tool", "content": "sunny", "tool_call_id": first},
        {"role": "assistant", "content": "", "tool_calls": [{**call("weather", city="Rome"), "id": third}]},
        {"role": "tool", "content": "rain", "tool_call_id": third},
    ]


@pytest.mark.parametrize(
    ("source", "ids", "expected"),
    [
        (KIMI, ["call_a1", "call_b2", "call_c3"], ["functions.weather:0", "functions.time:1", "functions.weather:2"]),
        # Of its own form already; a name of another function is no id of this one.
        (KIMI, ["functions.weather:7", "functions.weather:8", "x"], ["functions.weather:7", "functions.time:1"]),
        # Equal ids in two rounds, as some exporters number them.
        (KIMI, ["0", "1", "0"], ["functions.weather:0", "functions.time:1", "functions.weather:2"]),
        (NINE, ["call_a1", "abcdefgh1", "call_c3"], ["call00000", "abcdefgh1", "call00002"]),
    ],
)
def test_ids_are_spelled_as_the_template_needs_them(source: str, ids: list[str], expected: list[str]) -> None:
    template = ChatTemplate(source, name="t", variables={}, control=re.compile(r"<\\|.*?\\|>"))
    messages = two_rounds(*ids)
    text = template.render(messages, where="row 1")
    assert lost_call(template, messages, None, "row 1") == ""
    for each, answer in zip(expected, ("sunny", "noon", "rain"), strict=False):
        # Once in the call, once with its answer.
        assert text.count(each) == 2
        assert each in text[text.index("<|tool|>") :]
        answered = next(part for part in text.split("<|") if answer in part)
        assert each in answered


@pytest.mark.parametrize("source", [ALL, XML, FIRST])
def test_other_ids_stay(source: str) -> None:
    template = ChatTemplate(BEFORE + source + AFTER, name="t", variables={}, control=re.compile("x"))
    assert template.probes.id_form == ""


def test_thoughts_beside_a_call_that_the_template_shows_elsewhere_are_not_moved_words() -> None:
    # As MiniMax M2 and GLM 4.7 do, which also leave out the thoughts of earlier turns.
    apart = "{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1] }}" + ALL + "{% endfor %}"
    chats = [
        {"role": "user", "content": "ask"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\n", "tool_calls": [call("weather", town="Rome")]},
        {"role": "tool", "content": "sunny"},
    ]
    assert moved_words(ChatTemplate(apart, name="t", variables={}, control=re.compile("x")), chats, None, "") == 0
