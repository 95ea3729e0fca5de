"""What is learned of real templates' renderings: the assistant's text and the end of its turn, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from ft_assets.workers.templates.rendering import Rendering
from ft_assets.workers.templates.tracing import Tracer, learned_spans
from ft_assets.workers.tokenizers.chat_template import training_variant
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase, UserError
from tests.workers.packs.conftest import chat
from tests.workers.packs.corners import corners
from tests.workers.packs.templates.templates import (
    CONTROL,
    CORNERS,
    NAMES,
    compiled,
    learned,
    source,
    tracer_of,
)

TRAINING = [name for name in NAMES if name.endswith("_training")]
TOOLS = [{"type": "function", "function": {"name": "look", "description": "up", "parameters": {"type": "object"}}}]
# Contents whose white space and reasoning a template may handle are compared without them.
CONTENTS = st.lists(
    st.one_of(
        st.sampled_from(["🙂", "多言語", "مرحبا", "\u200b", "e\u0301", " ", "\n", *CONTROL[:4]]), st.text(max_size=8)
    ),
    min_size=1,
    max_size=4,
).map("".join)
SOLID = CONTENTS.map(str.strip).filter(lambda text: text and "think>" not in text and "\ufdd0" not in text)


@pytest.fixture(scope="session")
def theirs(tokenizer: ChatTokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer.tokenizer, **tokenizer.named)


def _tracer(text: str, tokenizer: ChatTokenizer, *, variant: bool = True) -> Tracer:
    template = compiled(text, tokenizer)
    # All turns in one document, however they are asked for.
    made = tracer_of(template, tokenizer, "all_assistant_bare")
    return replace(made, variant=training_variant(template) if variant else None)


@pytest.mark.usefixtures("same_day")
@pytest.mark.parametrize("name", corners(NAMES, CORNERS))
def test_renderings_equal_those_of_transformers(
    name: str, tokenizer: ChatTokenizer, theirs: PreTrainedTokenizerFast
) -> None:
    template = compiled(source(name), tokenizer)

    @settings(max_examples=4)
    @given(st.lists(CONTENTS, min_size=4, max_size=4), st.booleans(), st.booleans())
    def compare(contents: list[str], system: bool, tools: bool) -> None:
        messages = chat(*contents[: 2 if system else 4], system=contents[-1] if system else None)
        given_tools = TOOLS if tools else None
        try:
            expected = theirs.apply_chat_template(
                messages, chat_template=template.source, tools=given_tools, tokenize=False
            )
        except Exception:
            with pytest.raises(UserError):
                template.render(messages, where="row 1", tools=given_tools)
            return
        assert template.render(messages, where="row 1", tools=given_tools) == expected

    compare()


@pytest.mark.parametrize("name", corners(TRAINING, CORNERS))
def test_learned_is_the_assistant_s_text_with_what_the_template_always_puts_around_it(
    name: str, tokenizer: ChatTokenizer
) -> None:
    tracer = _tracer(source(name), tokenizer)
    # What stands around the answers does not depend on them; what stands around other texts is not learned.
    marks = ["USER1", "ANSWER1", "USER2", "ANSWER2"]
    around = learned(tracer, chat(*marks))
    assert len(around) == 2
    for text, answer in zip(around, ("ANSWER1", "ANSWER2"), strict=True):
        before, _, behind = text.partition(answer)
        assert "USER" not in text
        # TRL's marks of Muse begin before its header, which names whom the assistant speaks to.
        assert name == "muse_glimmer_training" or not any(word in before.lower() for word in ("user", "system"))
        assert len(before) + len(behind) <= 80

    @settings(max_examples=4)
    @given(st.lists(SOLID, min_size=4, max_size=4))
    def compare(contents: list[str]) -> None:
        expected = [
            text.replace(answer, content)
            for text, answer, content in zip(around, ("ANSWER1", "ANSWER2"), contents[1::2], strict=True)
        ]
        assert learned(tracer, chat(*contents)) == expected

    compare()


@pytest.mark.parametrize(
    "name", ["qwen2_5", "qwen3", "llama3", "phi3", "cohere", "gemma3", "qwen3_5_think", "deepseekv3"]
)
def test_without_marks_the_answer_and_its_end_are_learned(name: str, tokenizer: ChatTokenizer) -> None:
    tracer = _tracer(source(name), tokenizer)
    ends = tracer.end_of_turn
    for answer in ("yes", " yes \n", "多言語 🙂"):
        found = learned(tracer, chat("what?", answer))
        assert len(found) == 1
        assert answer.strip() in found[0]
        assert "what?" not in found[0]
        assert any(found[0].rstrip().endswith(end) for end in ends) or name in ("phi3", "gemma3", "deepseekv3")


# The generation prompt is not what the rendering shows.
UNTOLD = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|pad|>{% endif %}"
)
MARKED = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|end|>"
    "{% endgeneration %}{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}"
)


def test_where_prefixes_do_not_tell_a_training_template_does(tokenizer: ChatTokenizer) -> None:
    tracer = _tracer(UNTOLD, tokenizer)
    with pytest.raises(BadBase, match="without its own generation prompt"):
        learned(tracer, chat("a", "b"))
    assert learned(replace(tracer, variant=compiled(MARKED, tokenizer)), chat("a", "b")) == ["b<|end|>"]


def test_a_training_template_that_renders_otherwise_does_not_stand_in(tokenizer: ChatTokenizer) -> None:
    tracer = replace(_tracer(UNTOLD, tokenizer), variant=compiled(f"{MARKED}!", tokenizer))
    with pytest.raises(BadBase, match="without its own generation prompt"):
        learned(tracer, chat("a", "b"))


def test_a_header_that_marks_of_trl_take_in_is_not_learned(tokenizer: ChatTokenizer) -> None:
    assert learned(_tracer(source("deepseekv3"), tokenizer), chat("a", "b")) == ["</think>\n\nb<｜end▁of▁sentence｜>"]


def test_training_variants_are_known_by_the_exact_text(tokenizer: ChatTokenizer) -> None:
    assert training_variant(compiled(source("qwen3") + " ", tokenizer)) is None
    assert training_variant(compiled(source("qwen3_training"), tokenizer)) is None
    variant = training_variant(compiled(source("qwen3"), tokenizer))
    assert variant is not None
    assert variant.source == source("qwen3_training")


def test_white_space_between_an_answer_and_its_end_of_turn_is_learned(tokenizer: ChatTokenizer) -> None:
    # Such an answer stands in an earlier turn, where the template leaves its empty reasoning out.
    assert learned(_tracer(source("qwen3"), tokenizer), chat("a", "b ", "c", "d"))[0] == "b <|im_end|>"


def test_a_short_answer_is_not_taken_for_a_letter_of_the_template(tokenizer: ChatTokenizer) -> None:
    text = (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' and loop.last %}th{% endif %}"
        "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    assert learned(_tracer(text, tokenizer), chat("a", "t", "b", "h")) == ["t<|end|>", "thh<|end|>"]


@pytest.mark.parametrize(
    ("turn", "span"), [((3, 5), (3, 8)), ((3, 8), (3, 8)), ((3, 9), (3, 8)), ((0, 5), (0, 8)), ((3, 4), (3, 4))]
)
def test_derived_turns_end_with_their_end_token(turn: tuple[int, int], span: tuple[int, int]) -> None:
    rendering = Rendering(text="<A>ok<E>\n", turns=[turn], quoted=[])
    spans = learned_spans(
        rendering, [(0, 3), (5, 8)], learn="all_assistant", end_of_turn=frozenset({"<E>"}), marked=False
    )
    assert spans == [span]


def test_in_gemma_s_turns_with_tools_the_call_s_end_and_what_no_prompt_writes_are_learned_and_no_result(
    tokenizer: ChatTokenizer,
) -> None:
    # This template opens the turn again behind a tool's result, and its generation prompt does not: the model has to.
    # A call ends with <|tool_response>, at which Gemma 4 stops generating. TRL's marks leave both out.
    call = {"type": "function", "function": {"name": "look", "arguments": {"key": "fox"}}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "where?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "RESULT", "name": "look"},
        {"role": "assistant", "content": "there"},
    ]
    traced = {
        name: _tracer(source(name), tokenizer).trace(messages, where="row 1", tools=TOOLS)
        for name in ("diffusion_gemma", "diffusion_gemma_training")
    }
    texts = {name: each.rendering.text for name, each in traced.items()}
    assert len(set(texts.values())) == 1
    turns = {name: [texts[name][start:end] for start, end in each.learned] for name, each in traced.items()}
    called = '<|tool_call>call:look{key:<|"|>fox<|"|>}<tool_call|>'
    assert turns["diffusion_gemma"] == [called + "<|tool_response>", "<|turn>model\nthere<turn|>"]
    assert turns["diffusion_gemma_training"] == [called, "there<turn|>\n"]
