"""Answers stand behind the thoughts that a generation prompt opens or closes; thoughts, as a template has them."""

import json

import pytest

from ft_assets.workers.evals.holdout_rows import ChatRows
from ft_assets.workers.packs.report import pack_warnings
from ft_assets.workers.templates.rendering import Messages
from ft_assets.workers.templates.tracing import Learn, require_all_shown
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadData
from tests.workers.packs.conftest import Workbench, chat
from tests.workers.packs.templates.templates import compiled, learned, tracer_of
from tests.workers.packs.templates.test_skeletons import _assert_same, _label, _labeller, _skeletons

THOUGHT = "<|channel>thought\n<channel|>"
# As Gemma 4's, whose larger models have the empty thoughts in their prompt; its turns may show their own.
GEMMA = (
    "{% for m in messages %}{{ '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}"
    "{% if m.thinking %}{{ '<|channel>thought\n' + m.thinking + '\n<channel|>' }}{% endif %}"
    "{{ m.content + '<turn|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|turn>model\n' + THOUGHT }}{% endif %}"
).replace("THOUGHT", repr(THOUGHT).replace("\\n", "\n"))
THINK = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think>\n\n</think>\n\n{% endif %}"
)


def test_a_document_begins_as_its_prompt_and_the_thoughts_are_not_learned(tokenizer: ChatTokenizer) -> None:
    made = tracer_of(compiled(GEMMA, tokenizer), tokenizer)
    messages = chat("Hi?", "Hello.")
    traced = made.trace(messages, where="row 1")
    prompt = made.template.render(messages[:1], where="row 1", add_generation_prompt=True)
    assert traced.rendering.text == f"{prompt}Hello.<turn|>\n"
    assert [traced.rendering.text[start:end] for start, end in traced.learned] == ["Hello.<turn|>"]


@pytest.mark.parametrize(("learn", "thoughts"), [("all_assistant_bare", 2), ("last_assistant", 1)])
def test_every_learned_turn_has_them_and_only_these(tokenizer: ChatTokenizer, learn: Learn, thoughts: int) -> None:
    traced = tracer_of(compiled(GEMMA, tokenizer), tokenizer, learn).trace(
        chat("Hi? <turn|>", "Hello.", "And?", "So <turn|>."), where="row 1"
    )
    text = traced.rendering.text
    assert text.count(THOUGHT) == thoughts
    turns = [text[start:end] for start, end in traced.learned]
    assert turns == ["Hello.<turn|>", "So <turn|>.<turn|>"][-thoughts:]
    assert all(text[:start].endswith(THOUGHT) for start, _ in traced.learned)
    assert [text[start:end] for start, end in traced.rendering.quoted] == ["<turn|>"] * 2
    assert [text[start:end] for start, end in traced.controls].count("<turn|>") == 4


def test_a_turn_s_own_thoughts_stay_alone(tokenizer: ChatTokenizer) -> None:
    messages: Messages = [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "A", "thinking": "B"}]
    traced = tracer_of(compiled(GEMMA, tokenizer), tokenizer).trace(messages, where="row 1")
    assert traced.rendering.text.count("<|channel>") == 1
    ((start, end),) = traced.learned
    assert traced.rendering.text[start:end] == "<|channel>thought\nB\n<channel|>A<turn|>"


def test_skeletons_have_them_too(tokenizer: ChatTokenizer) -> None:
    made = [chat(f"question {number}", f"answer {number}", "and", "so") for number in range(5)]
    template = compiled(GEMMA, tokenizer)
    labeller = _labeller(template, tokenizer)
    _assert_same(_label(labeller, made), _label(_labeller(template, tokenizer, by_row=True), made))
    assert _skeletons(labeller) == 1


@pytest.mark.parametrize("learn", ["all_assistant", "last_assistant"])
def test_a_pack_with_them_passes_the_doctor_and_is_scored_behind_its_own_prompt(
    workbench: Workbench, learn: str
) -> None:
    rows = [chat(f"question {number}?", f"answer {number}", "and?", "so.") for number in range(6)]
    result = workbench.build(workbench.dataset(rows, rows[:1]), chat_template=THINK, learn=learn, max_length=128)
    evidence = json.loads((result.folder / "evidence" / "doctor.json").read_text())
    assert [check["detail"] for check in evidence["checks"] if not check["passed"]] == []
    scored = ChatRows(workbench.base_folder, ChatTokenizer.load(workbench.base_folder), THINK).encode(
        {"id": "1", "row": 1, "kind": "", "messages": chat("Hi?", "Hello."), "prompt": 0}
    )
    assert list(scored.ids[: len(scored.prompt)]) == scored.prompt
    assert list(scored.learned[: len(scored.prompt)]) == [False] * len(scored.prompt)


OPENS = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}"
)
"""As DeepSeek R1's and MiniMax M2's: a prompt opens thoughts, and an answer without is rendered without."""
OPENS_MARKED = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}<|assistant|>{{ m.content }}<|end|>"
    "{% endgeneration %}{% else %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}"
)
OWN_FIELD = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<|channel>{{ m.reasoning_content }}<channel|>"
    "{% endif %}{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.mark.parametrize("text", [OPENS, OPENS_MARKED], ids=["plain", "marks with the header"])
def test_thoughts_that_a_prompt_opens_are_closed_by_an_answer_without(text: str, tokenizer: ChatTokenizer) -> None:
    made = tracer_of(compiled(text, tokenizer), tokenizer, "all_assistant_bare")
    messages = chat("Hi?", "Hello.", "And?", "So.")
    assert learned(made, messages) == ["</think>\n\nHello.<|end|>", "</think>\n\nSo.<|end|>"]
    prompt = made.template.render(messages[:1], where="row 1", add_generation_prompt=True)
    text = made.trace(messages, where="row 1").rendering.text
    assert text.startswith(f"{prompt}</think>\n\nHello.<|end|><|user|>And?")


def test_a_turn_whose_own_thoughts_the_template_drops_does_not_learn_to_have_none(tokenizer: ChatTokenizer) -> None:
    text = OPENS.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}")
    messages = chat("Hi?", "<think>\nwell\n</think>Hello.", "And?", "So.")
    tracer = tracer_of(compiled(text, tokenizer), tokenizer)
    assert learned(tracer, messages) == ["</think>\n\nSo.<|end|>"]
    bare = tracer_of(compiled(text, tokenizer), tokenizer, "all_assistant_bare")
    assert learned(bare, messages) == ["Hello.<|end|>", "</think>\n\nSo.<|end|>"]


def test_thoughts_that_no_prompt_asks_for_are_refused_by_name(tokenizer: ChatTokenizer) -> None:
    for text in (GEMMA, THINK):
        tracer = tracer_of(compiled(text, tokenizer), tokenizer)
        with pytest.raises(
            BadData,
            match="an answer has thoughts, but the chat template's generation prompt already closes the thoughts",
        ):
            tracer.trace(chat("Hi?", "<think>\nwell\n</think>\n\nHello."), where="row 1")
        # Empty ones say the same as the prompt.
        tracer.trace(chat("Hi?", "<think>\n\n</think>\n\nHello."), where="row 1")


def test_thoughts_stand_where_the_template_has_them(tokenizer: ChatTokenizer) -> None:
    made = tracer_of(compiled(OWN_FIELD, tokenizer), tokenizer)
    assert made.template.probes.thoughts_field == "reasoning_content"
    traced = made.trace(chat("Hi?", "<think>\nwell\n</think>\n\nHello."), where="row 1")
    assert traced.rendering.text == "<|user|>Hi?<|end|><|assistant|><|channel>well<channel|>Hello.<|end|>"
    assert compiled(OPENS, tokenizer).probes.thoughts_field == ""


@pytest.mark.parametrize("text", [OPENS, OWN_FIELD])
def test_skeletons_close_and_move_thoughts_as_rows_do(text: str, tokenizer: ChatTokenizer) -> None:
    said = ["Hello.", "<think>\nwell\n</think>\n\nHello.", "a <think> b", "</think> c", "so"]
    made = [chat(f"question {number}", answer, "and", "so") for number, answer in enumerate(said)]
    template = compiled(text, tokenizer)
    ours, theirs = (_label(_labeller(template, tokenizer, by_row=by_row), made) for by_row in (False, True))
    _assert_same(ours, theirs)


def test_tools_that_are_left_out_are_found_where_thoughts_are_put_back(tokenizer: ChatTokenizer) -> None:
    template = compiled(THINK, tokenizer)
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    messages = chat("Hi?", "Hello.")
    text = tracer_of(template, tokenizer).trace(messages, where="row 1", tools=tools).rendering.text
    with pytest.raises(BadData, match="leaves out the definitions of the tools"):
        require_all_shown(template, messages, tools, text, "row 1")


@pytest.mark.parametrize(("learn", "learned_turns"), [("all_assistant", 1), ("all_assistant_bare", 2)])
def test_a_pack_counts_and_tells_the_turns_whose_thoughts_its_template_drops(
    workbench: Workbench, learn: str, learned_turns: int
) -> None:
    drops = (
        "{% for m in messages %}<|{{ m.role }}|>"
        "{{ m.content if loop.last else m.content.split('</think>')[-1] }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    thinks = "<think>\nwell\n</think>\n\n"
    rows = [chat(f"question {number}?", f"{thinks}yes", "and?", f"{thinks}so") for number in range(3)]
    pack = workbench.build(workbench.dataset(rows, rows[:1]), chat_template=drops, learn=learn)
    evidence = json.loads((pack.folder / "evidence" / "doctor.json").read_text())
    assert [check["detail"] for check in evidence["checks"] if not check["passed"]] == []
    assert pack.facts["bare"] == 3
    (warning,) = (each for each in pack_warnings(pack.facts) if "training" in each)
    assert "drops the thoughts of 3 training turns" in warning
    tokenizer = ChatTokenizer.load(workbench.base_folder).tokenizer
    turns = [f"{thinks}so", "\n\nyes"][:learned_turns]
    # Each with its end.
    assert pack.facts["learned_tokens"] == 3 * sum(len(tokenizer.encode(turn).ids) + 1 for turn in turns)
