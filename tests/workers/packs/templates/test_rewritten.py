"""Templates that drop, empty or write anew the thoughts of answers: what they show of a turn is what is learned."""

from dataclasses import replace
from typing import Any

import pytest

from ft_assets.workers.templates.rendering import Messages
from ft_assets.workers.templates.tracing import Learn, Tracer
from ft_assets.workers.tokenizers.chat_template import training_variant
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase, BadData
from tests.workers.packs.conftest import chat
from tests.workers.packs.corners import corners
from tests.workers.packs.templates.templates import CORNERS, NAMES, compiled, learned, source, tracer_of

QWEN = ["qwen3", "qwen3_5_think", "qwen3_5_nothink", "qwen3_6"]
OPEN = ("qwen3_5_think", "qwen3_6")
"""Their prompts open thoughts, which an answer without must close."""
CLOSES = "</think>\n\n"
UNMARKED = [name for name in NAMES if not name.endswith("_training")]
THOUGHTS = "<think>\nmm\n</think>\n\n"
EMPTY = "<think>\n\n</think>\n\n"
CHATS = [
    chat("ask", "first"),
    chat("ask", f"{THOUGHTS}first"),
    chat("ask", "first", "more", "second"),
    chat("ask", f"{THOUGHTS}first", "more", f"{THOUGHTS}second"),
    chat("ask", "first", "more", "<think>nn</think>second"),
    chat("ask", f"{THOUGHTS}first", "more", "second", "third?", "<think>nn</think>last"),
    chat("ask", "first", "more", "<think>nn</think>second", "third?", "last"),
]
TOOLS = [{"type": "function", "function": {"name": "look", "description": "up", "parameters": {"type": "object"}}}]
CALL = {"type": "function", "function": {"name": "look", "arguments": {"key": "v"}}}


def _tracer(text: str, tokenizer: ChatTokenizer, learn: Learn = "all_assistant_bare") -> Tracer:
    return tracer_of(compiled(text, tokenizer), tokenizer, learn)


@pytest.mark.parametrize("messages", CHATS, ids=range(len(CHATS)))
@pytest.mark.parametrize("name", QWEN)
def test_earlier_thoughts_are_dropped_and_the_last_ones_learned_behind_what_the_prompt_has(
    name: str, messages: Messages, tokenizer: ChatTokenizer
) -> None:
    *earlier, last = [str(message["content"]).rpartition("</think>") for message in messages[1::2]]
    inner = last[0].removeprefix("<think>").strip()
    if name == "qwen3_5_nothink" and inner:
        with pytest.raises(BadData, match="already closes the thoughts"):
            learned(_tracer(source(name), tokenizer), messages)
        return
    expected = [f"{CLOSES * (name in OPEN and not each[0])}{each[2].strip()}<|im_end|>" for each in earlier]
    thoughts = f"<think>\n{inner}\n</think>\n\n"
    if name in OPEN:
        thoughts = thoughts.removeprefix("<think>\n") if inner else CLOSES
    expected.append(f"{'' if name == 'qwen3_5_nothink' else thoughts}{last[2].strip()}<|im_end|>")
    assert learned(_tracer(source(name), tokenizer), messages) == expected
    assert learned(_tracer(source(name), tokenizer, "last_assistant"), messages) == expected[-1:]
    # A turn that had thoughts would teach to answer without, and others stand behind what nobody asks.
    bare = [answer for each, answer in zip(earlier, expected, strict=False) if each[0]]
    usual = _tracer(source(name), tokenizer, "all_assistant")
    exact = expected if name == "qwen3" else expected[-1:]
    assert learned(usual, messages) == [answer for answer in exact if answer not in bare]
    traced = usual.trace(messages, where="row 1")
    assert traced.bare == len(bare)
    assert len(traced.learned) + traced.bare + traced.unasked == len(expected)


@pytest.mark.parametrize("messages", CHATS, ids=range(len(CHATS)))
def test_thoughts_that_are_emptied_or_trimmed_are_learned_as_shown(
    messages: Messages, tokenizer: ChatTokenizer
) -> None:
    *earlier, last = [str(message["content"]).rpartition("</think>") for message in messages[1::2]]
    inner = last[0].removeprefix("<think>").strip()
    expected = [f"\n<think></think>\n{each[2].strip()}" for each in earlier]
    expected.append(f"\n<think>{inner}</think>\n{last[2].strip()}")
    tracer = _tracer(source("glm4moe"), tokenizer)
    assert learned(tracer, messages) == expected
    assert learned(replace(tracer, learn="last_assistant"), messages) == expected[-1:]


@pytest.mark.parametrize("messages", CHATS, ids=range(len(CHATS)))
def test_thoughts_that_a_prompt_opens_and_the_rendering_lacks_are_closed_unless_the_turn_has_its_own(
    messages: Messages, tokenizer: ChatTokenizer
) -> None:
    shown = [str(message["content"]).rpartition("</think>") for message in messages[1::2]]
    expected = [f"{'' if own else '</think>' + chr(10) * 2}{each}<｜end▁of▁sentence｜>" for own, _, each in shown]
    assert learned(_tracer(source("deepseek_r1_distill"), tokenizer), messages) == expected


@pytest.mark.parametrize("learn", corners(["all_assistant_bare", "last_assistant"], ["all_assistant_bare"]))
@pytest.mark.parametrize("name", corners(UNMARKED, CORNERS))
def test_what_is_learned_is_what_trl_marks_but_for_headers_and_white_space(
    name: str, learn: Learn, tokenizer: ChatTokenizer
) -> None:
    tracer = _tracer(source(name), tokenizer, learn)
    variant = training_variant(tracer.template)
    marks = replace(tracer, template=variant) if variant is not None else None
    for messages in CHATS:
        try:
            found = learned(tracer, messages)
        except BadData:
            assert tracer.template.probes.closes_thoughts
            continue
        assert len(found) == (1 if learn == "last_assistant" else len(messages) // 2)
        assert not any(message["content"] in "".join(found) for message in messages[::2])
        text = tracer.template.render(messages, where="")
        if marks is None or marks.template.render(messages, where="") != text:
            continue
        marked = [text[start:end] for start, end in variant.trace(messages, where="").turns]  # type: ignore[union-attr]
        for ours, theirs in zip(found, marked[-len(found) :], strict=True):
            # TRL knows nothing of thoughts that a prompt opens.
            answer = ours.removeprefix(CLOSES).strip()
            # TRL takes the role headers of these in; gpt-oss ends earlier turns with what no model writes.
            header, said, rest = theirs.partition(answer)
            assert said
            assert header.strip() in ("", "<think>", EMPTY.strip(), "<｜Assistant｜>", "<|start|>assistant")
            assert rest.strip() in (("", "<|end|>") if name == "gptoss" else ("",))


def _steps(thoughts: str, said: str) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "ask"},
        {"role": "assistant", "content": f"{thoughts}{said}", "tool_calls": [CALL]},
        {"role": "tool", "content": "found", "name": "look"},
        {"role": "assistant", "content": f"{thoughts}first"},
        {"role": "user", "content": "more"},
        {"role": "assistant", "content": f"{thoughts}second"},
    ]


@pytest.mark.parametrize("said", ["", "let me see"])
@pytest.mark.parametrize("thoughts", ["", THOUGHTS])
@pytest.mark.parametrize("name", QWEN)
def test_calls_of_earlier_turns_are_learned_whole_and_results_never(
    name: str, thoughts: str, said: str, tokenizer: ChatTokenizer
) -> None:
    if name == "qwen3_5_nothink" and thoughts:
        pytest.skip("it asks for answers without thoughts")
    call, answer, last = learned(_tracer(source(name), tokenizer), _steps(thoughts, said), TOOLS)
    closes = CLOSES * (name in OPEN and not thoughts)
    assert call.startswith(closes + (said or "<tool_call>"))
    assert call.endswith("</tool_call><|im_end|>")
    assert call.count("<tool_call>") == 1
    own = thoughts or EMPTY
    if name in OPEN:
        own = own.removeprefix("<think>\n") if thoughts else CLOSES
    elif name == "qwen3_5_nothink":
        own = ""
    assert (answer, last) == (f"{closes}first<|im_end|>", f"{own}second<|im_end|>")


def test_a_turn_that_is_not_learned_need_not_be_found(tokenizer: ChatTokenizer) -> None:
    # It writes of its own in front of an earlier answer.
    text = (
        "{% for m in messages %}<|{{ m.role }}|>{% if not loop.last and m.role == 'assistant' %}earlier: {% endif %}"
        "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    tracer = _tracer(text, tokenizer)
    messages = chat("a", "b", "c", "d")
    with pytest.raises(BadBase, match="message 2 differently") as refused:
        learned(tracer, messages)
    assert "last_assistant" in refused.value.remedy
    assert learned(replace(tracer, learn="last_assistant"), messages) == ["d<|end|>"]
    assert learned(tracer, messages, prompt=3) == ["d<|end|>"]


def test_thoughts_that_are_not_the_messages_own_are_refused(tokenizer: ChatTokenizer) -> None:
    text = (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' and not loop.last %}<think>other</think>"
        "{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    with pytest.raises(BadBase, match="message 2 differently"):
        learned(_tracer(text, tokenizer), chat("a", "<think>own</think>b", "c", "d"))
