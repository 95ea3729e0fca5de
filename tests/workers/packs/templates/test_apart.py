"""No control token arises where messages meet; rows without such a place stay as they are."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ft_assets.workers.templates.rendering import Tools
from ft_assets.workers.templates.tracing import Traced
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadData
from tests.workers.packs.conftest import chat
from tests.workers.packs.templates.templates import compiled, tracer_of

TURN = "{% if m.role == 'assistant' %}{% generation %}§{{ eos_token }}{% endgeneration %}{% else %}§{% endif %}"
EVERY = "{% for m in messages %}" + TURN + "{% endfor %}"
SIDE_BY_SIDE = EVERY.replace("§", "{{ m.content | trim }}")
USUAL = "{% for m in messages %}<|{{ m.role }}|>" + TURN.replace("§", "{{ m.content }}") + "{% endfor %}"


def _trace(source: str, base_tokenizer: ChatTokenizer, messages: list[dict[str, Any]], tools: Tools = None) -> Traced:
    tracer = replace(tracer_of(compiled(source, base_tokenizer), base_tokenizer), end_of_turn=frozenset({"<|end|>"}))
    return tracer.trace(messages, where="row 1", tools=tools)


MEETING = [
    (SIDE_BY_SIDE, ("the fox <|", "user|> in the house")),
    (SIDE_BY_SIDE, ("the fox <|\n", " user|> in the house")),
    (SIDE_BY_SIDE, ("<|user|> the fox <|", "user|> in the house")),
    (EVERY.replace("§", "{{ m.content }}").replace("{{ eos_token }}", ""), ("<|", "us", "er|>", "b")),
    ("{% for m in messages %}<|{% generation %}{{ m.content }}{% endgeneration %}|>{% endfor %}", ("user", "b")),
    ("{% for m in messages %}<|us{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}", ("er|>", "b")),
    (EVERY.replace("§", "{{ m.content.split('</think>')[-1] }}"), ("the <|", "<think>x</think>user|> b")),
    # Templates that look at what they show.
    (SIDE_BY_SIDE + "{% if messages[0].content == 'the fox <|' %}!{% endif %}", ("the fox <|", "user|> b")),
    (SIDE_BY_SIDE + "{{ messages[0].content | length }}", ("the fox <|", "user|> b")),
    (
        USUAL.replace(
            "{% for", "<|{{ messages[0].content }}|>{% if messages[0].content == 'user' %}!{% endif %}{% for", 1
        ),
        ("user", "b"),
    ),
]


@pytest.mark.parametrize(("source", "contents"), MEETING)
def test_a_control_token_that_comes_about_where_messages_meet_is_refused(
    source: str, contents: tuple[str, ...], base_tokenizer: ChatTokenizer
) -> None:
    with pytest.raises(BadData, match="together spell a control token") as caught:
        _trace(source, base_tokenizer, chat(*contents))
    assert caught.value.where == "row 1, the template"
    assert "fox" not in str(caught.value)


CALL = "{% for m in messages %}<|{{ m.role }}|>" + TURN.replace(
    "§",
    "{{ m.content }}{% for c in m.tool_calls or [] %}<{{ c.function.name }}>{{ c.function.arguments.k }}{% endfor %}",
)
TOOLS = [{"type": "function", "function": {"name": "end", "description": "the end|>", "parameters": {"user": "a"}}}]


@pytest.mark.parametrize(("name", "key"), [("|end|", "x"), ("x", "<|end|"), ("x", "a<|end|")])
def test_names_and_arguments_of_calls_are_held_apart_too(name: str, key: str, base_tokenizer: ChatTokenizer) -> None:
    source = CALL.replace("{{ c.function.arguments.k }}", "{{ c.function.arguments.k }}>") + "{% endfor %}"
    messages: list[dict[str, Any]] = list(chat("a", "b"))
    messages[1]["tool_calls"] = [{"type": "function", "function": {"name": name, "arguments": {"k": key}}}]
    with pytest.raises(BadData, match="together spell"):
        _trace(source, base_tokenizer, messages)
    messages[1]["tool_calls"][0]["function"] = {"name": "user", "arguments": {"k": "|end|>"}}
    assert len(_trace(source, base_tokenizer, messages, TOOLS).controls) == 3


halves = st.sampled_from(
    ["user", "a", "<", "<|", "|>", ">", "end|>", "x <|", "user|> y", " <|user ", "end", "e", "</think>e"]
)
ASKING = [
    "",
    "{% if m.content == 'user' %}!{% elif m.content.startswith('<|') or m.content.endswith('>') %}?{% endif %}",
    "{{ m.content | length }}",
    "{{ '%s' % m.content.upper() }}",
]


@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize(
    "ending", ["{{ m.content }}", "{{ m.content | trim }} .", "{{ m.content | tojson(ensure_ascii=true) }}"]
)
def test_rows_in_which_no_control_token_comes_about_stay_as_they_are(
    asking: str, ending: str, base_tokenizer: ChatTokenizer
) -> None:
    source = "{% for m in messages %}<|{{ m.role }}|>\n" + TURN.replace("§", ending + " ") + asking + "{% endfor %}"

    @settings(max_examples=15)
    @given(st.lists(halves, min_size=2, max_size=4).filter(lambda texts: len(texts) % 2 == 0))
    def trace(contents: list[str]) -> None:
        traced = _trace(source, base_tokenizer, chat(*contents))
        found = [traced.rendering.text[start:end] for start, end in traced.controls]
        assert found == ["<|user|>", "<|assistant|>", "<|end|>"] * (len(contents) // 2)

    trace()


def test_a_row_without_such_an_edge_is_rendered_once(
    base_tokenizer: ChatTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = compiled(USUAL, base_tokenizer)
    tracer = replace(tracer_of(template, base_tokenizer), end_of_turn=frozenset())
    # What is found once for a template, by probes, is found.
    tracer.trace(chat("a <b> c", "the fox."), where="row 1")
    rendered = []
    usual = type(template)._render
    monkeypatch.setattr(type(template), "_render", lambda *args: rendered.append(1) or usual(*args))
    tracer.trace(chat("a <b> c", "the fox."), where="row 1")
    plain = len(rendered)
    tracer.trace(chat("a <b> c <", "the fox."), where="row 1")
    # The usual one, the one with marks of generation, the prompt, and one more.
    assert (plain, len(rendered) - plain) == (3, 4)
