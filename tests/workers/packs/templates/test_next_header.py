"""A template that always writes the next turn's header teaches what it would teach without it."""

import pytest

from ft_assets.workers.packs.doctor.endings import turn_ends
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.templates.tracing import Tracer
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from tests.workers.packs.conftest import Conversation, chat
from tests.workers.packs.templates.templates import compiled, learned, tracer_of
from tests.workers.packs.templates.test_skeletons import _assert_same, _label, _labeller, _skeletons

PROMPT = "{% if add_generation_prompt %}HEADER{% endif %}"
LLAMA = (
    "{{ '<|begin_of_text|>' }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' }}"
    "{{ m.content | trim }}{{ '<|eot_id|>' }}{% endfor %}"
) + PROMPT.replace("HEADER", "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}")
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
) + PROMPT.replace("HEADER", "{{ '<|im_start|>assistant\n' }}")
COMMAND = (
    "{% for m in messages %}{{ '<|START_OF_TURN_TOKEN|>' }}{% if m.role == 'assistant' %}{{ '<|start|>' }}"
    "{{ '<|message|>' + m.content + '<|return|>' }}{% else %}{{ '<|channel|>' + m.content }}{% endif %}"
    "{{ '<|im_end|>' }}{% endfor %}"
) + PROMPT.replace("HEADER", "{{ '<|START_OF_TURN_TOKEN|><|start|>' }}")
# Headers that are no control tokens.
INSTRUCTION = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ '### Response\n' + m.content + '<|im_end|>\n\n' }}"
    "{% else %}{{ '### Instruction\n' + m.content + '\n\n' }}{% endif %}{% endfor %}"
) + PROMPT.replace("HEADER", "{{ '### Response\n' }}")
# Of the shape of these models' templates.
HAMMER = (
    "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nBe helpful.<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{% set text = m.content %}{% if m.tool_calls %}{% set text = m.tool_calls | tojson %}"
    "{% endif %}{{ '<|im_start|>' + m.role + '\n' + text + '<|im_end|>\n' }}{% endfor %}"
) + PROMPT.replace("HEADER", "{{ '<|im_start|>assistant\n' }}")
STARCODER2 = (
    "{{ bos_token + 'You write code.\n\n' }}{% for m in messages %}{% if m.role == 'user' %}"
    "{{ '### Instruction\n' + m.content + '\n\n' }}{% else %}{{ '### Response\n' + m.content + eos_token + '\n\n' }}"
    "{% endif %}{% endfor %}"
) + PROMPT.replace("HEADER", "{{ '### Response\n' }}")
# The end stands on a line of its own, and the prompt ends without one.
DEEPSEEK_CODER = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '### Instruction:\n' + m.content + '\n' }}"
    "{% else %}{{ '### Response:\n' + m.content + '\n<|eot_id|>\n' }}{% endif %}{% endfor %}"
) + PROMPT.replace("HEADER", "{{ '### Response:' }}")
FALCON = (
    "{% for m in messages %}{% set text = m.content.replace('\r\n', '\n') %}{% if m.role == 'user' %}"
    "{{ '\nUser: ' + text.replace('\n\n', '\n') }}{% else %}{{ '\nFalcon: ' + text + eos_token }}{% endif %}"
    "{% endfor %}"
) + PROMPT.replace("HEADER", "{{ '\nFalcon: ' }}")
WHEN_ASKED = {
    **{"llama": LLAMA, "chatml": CHATML, "command": COMMAND, "instruction": INSTRUCTION, "hammer 2.1": HAMMER},
    **{"starcoder2": STARCODER2, "magicoder": STARCODER2.replace("###", "@@"), "deepseek-coder": DEEPSEEK_CODER},
    **{"falcon-instruct": FALCON},
}
CONVERSATIONS = [
    chat("Hi?", "Hello."),
    chat("Hi?", "Hello.", "And?", "So."),
    chat("Hi?", "assistant", "### Response", "Hello.\n\n### Response\n"),
    chat("x", *(f"turn {number}" for number in range(41))),
]


def always(source: str) -> str:
    return source.replace("{% if add_generation_prompt %}", "{% if true %}")


def tracer(source: str, tokenizer: ChatTokenizer) -> Tracer:
    return tracer_of(compiled(source, tokenizer), tokenizer)


@pytest.mark.parametrize("name", WHEN_ASKED)
@pytest.mark.parametrize("messages", CONVERSATIONS, ids=["one", "two", "tricky", "long"])
def test_the_same_is_learned_whether_the_header_is_asked_for_or_not(
    name: str, messages: Conversation, tokenizer: ChatTokenizer
) -> None:
    expected = learned(tracer(WHEN_ASKED[name], tokenizer), messages)
    assert learned(tracer(always(WHEN_ASKED[name]), tokenizer), messages) == expected
    ends = tuple(compiled(WHEN_ASKED[name], tokenizer).probes.ends)
    assert all(turn.endswith(ends) for turn in expected)


@pytest.mark.parametrize("name", WHEN_ASKED)
def test_skeletons_know_the_header(name: str, tokenizer: ChatTokenizer) -> None:
    made = [chat(f"question {number}", f"answer {number}", "and", "so") for number in range(5)]
    template = compiled(always(WHEN_ASKED[name]), tokenizer)
    labeller = _labeller(template, tokenizer)
    _assert_same(_label(labeller, made), _label(_labeller(template, tokenizer, by_row=True), made))
    assert _skeletons(labeller) == 1


@pytest.mark.parametrize("name", WHEN_ASKED)
def test_the_doctor_takes_no_header_for_the_end_of_a_turn(name: str, tokenizer: ChatTokenizer) -> None:
    plain, eager = (compiled(source, tokenizer) for source in (WHEN_ASKED[name], always(WHEN_ASKED[name])))
    assert plain.probes.appended == ""
    assert eager.probes.appended.strip()
    assert turn_ends(eager, tokenizer) == turn_ends(plain, tokenizer)


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}<s>{{ '[INST]' + m.content if m.role == 'user' else m.content }}</s>{% endfor %}",
        # A footer that ends every conversation is no header.
        CHATML + "{{ '<|endoftext|>' }}",
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
    ],
)
def test_other_templates_append_nothing(source: str, tokenizer: ChatTokenizer) -> None:
    assert compiled(source, tokenizer).probes.appended == ""


def test_a_header_that_would_end_a_turn_is_no_end(tokenizer: ChatTokenizer) -> None:
    template: ChatTemplate = compiled(
        "{% for m in messages %}{{ '<|start|>' if m.role == 'assistant' else '<|turn>' }}{{ m.content }}{% endfor %}"
        "{{ '<|start|>' }}",
        tokenizer,
    )
    assert template.probes.appended == "<|start|>"
    assert "<|start|>" not in template.probes.ends


def test_a_header_with_empty_thoughts_behind_an_end_of_its_own_is_not_learned(tokenizer: ChatTokenizer) -> None:
    """As Command R7B's: an answer is between tokens of its own, and each conversation ends with the next header."""
    template = compiled(
        "{% for m in messages %}<|turn>{{ m.role }}<|message|>{% if m.role == 'assistant' %}<|start|>{{ m.content }}"
        "<|channel|>{% else %}{{ m.content }}{% endif %}<turn|>{% endfor %}"
        "<|turn>assistant<|message|><|START_THINKING|><|END_THINKING|>",
        tokenizer,
    )
    assert template.probes.appended == "<|turn>assistant<|message|><|START_THINKING|><|END_THINKING|>"
    traced = tracer_of(template, tokenizer, "all_assistant_bare").trace(chat("a", "b", "c", "d"), where="row 1")
    text = traced.rendering.text
    assert [text[start:end] for start, end in traced.learned] == [f"<|start|>{each}<|channel|><turn|>" for each in "bd"]
    assert all(text[:start].endswith("<|START_THINKING|><|END_THINKING|>") for start, _ in traced.learned)


# As Command A+: both turns end alike, with two tokens, and a prompt that opens thoughts follows.
TWO_ENDS = (
    "{% for m in messages %}<|turn>{{ m.role }}<|message|>{{ m.content }}<|eot_id|><turn|>{% endfor %}"
    "{% if add_generation_prompt %}<|turn>assistant<|message|>{% endif %}"
)
# As Cohere's Aya: an answer has an end of its own before that of each turn.
OWN_END = (
    "{% for m in messages %}<|turn>{{ m.role }}{{ m.content }}{{ '<|eot_id|>' if m.role == 'assistant' }}<turn|>"
    "{% endfor %}{% if add_generation_prompt %}<|turn>assistant{% endif %}"
)


@pytest.mark.parametrize("source", [TWO_ENDS, OWN_END])
def test_the_second_token_of_an_end_is_no_header(source: str, tokenizer: ChatTokenizer) -> None:
    assert compiled(source, tokenizer).probes.appended == ""
    answers = [turn.rpartition("|>b")[2] for turn in learned(tracer(source, tokenizer), chat("a", "b", "c", "b"))]
    assert [turn.removeprefix("b") for turn in answers] == ["<|eot_id|><turn|>"] * 2


# One that appends a part of the header, and the rest of it when asked, as Command A's.
PARTLY = (
    "{% for m in messages %}<|turn>{{ m.role }}<|message|>{{ m.content }}{{ '<|eot_id|>' if m.role == 'assistant' }}"
    "<turn|>{% endfor %}<|turn>assistant{% if add_generation_prompt %}<|message|>{% endif %}"
)


def test_a_part_of_a_header_is_not_learned(tokenizer: ChatTokenizer) -> None:
    assert compiled(PARTLY, tokenizer).probes.appended == "<|turn>assistant"
    assert all(turn.endswith("<turn|>") for turn in learned(tracer(PARTLY, tokenizer), chat("a", "b", "c", "b")))
