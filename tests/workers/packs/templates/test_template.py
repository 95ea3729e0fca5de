"""Renderings, ids and masks against transformers, and what must hold where transformers has no answer."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from ft_assets.settings.recipe.ready_templates import PLAIN_TEMPLATE
from ft_assets.workers.tokenizers.chat_template import load_template
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase, BadData
from tests.workers.packs.conftest import Conversation, chat, edit_json
from tests.workers.packs.corners import corners
from tests.workers.packs.templates.templates import CORNERS, NAMES, compiled, source

CONVERSATIONS = [
    chat("hi there", "  Hello to you "),
    chat("one", "two", "three?", "four.\n"),
    chat("多言語 🙂", "مرحبا 👩‍👩‍👧 zero\u200bwidth e\u0301 done", system="be brief"),
]
TRAINING = [name for name in NAMES if name.endswith("_training")]


def _turns(source: str, tokenizer: ChatTokenizer, messages: Conversation) -> list[str]:
    rendering = compiled(source, tokenizer).trace(messages, where="row 1")
    return [rendering.text[start:end] for start, end in rendering.turns]


@pytest.mark.parametrize("messages", CONVERSATIONS)
def test_text_ids_and_masks_equal_those_of_transformers(
    base: Path, base_tokenizer: ChatTokenizer, messages: Conversation
) -> None:
    rendering = load_template(base, base_tokenizer, None).trace(messages, where="row 1")
    tokens = base_tokenizer.encode(rendering, rendering.turns)
    theirs = AutoTokenizer.from_pretrained(base)
    expected = theirs.apply_chat_template(messages, return_assistant_tokens_mask=True)
    assert rendering.text == theirs.apply_chat_template(messages, tokenize=False)
    assert tokens.ids.tolist() == expected["input_ids"]
    # Like TRL's templates, this one marks the end token.
    assert tokens.learned.astype(int).tolist() == expected["assistant_masks"]


@pytest.mark.parametrize("messages", CONVERSATIONS)
def test_the_plain_template_gives_the_ids_and_masks_of_transformers(
    base: Path, base_tokenizer: ChatTokenizer, messages: Conversation
) -> None:
    rendering = compiled(PLAIN_TEMPLATE, base_tokenizer).trace(messages, where="row 1")
    tokens = base_tokenizer.encode(rendering, rendering.turns)
    expected = AutoTokenizer.from_pretrained(base).apply_chat_template(
        messages, chat_template=PLAIN_TEMPLATE, return_assistant_tokens_mask=True
    )
    assert tokens.ids.tolist() == expected["input_ids"]
    assert tokens.learned.astype(int).tolist() == expected["assistant_masks"]


def test_the_plain_template_refuses_what_it_would_lose(base_tokenizer: ChatTokenizer) -> None:
    plain = compiled(PLAIN_TEMPLATE, base_tokenizer)
    messages = [{"role": "user", "content": "What?"}, {"role": "tool", "content": "4"}]
    with pytest.raises(BadData, match="the plain template has no tools"):
        plain.render(messages, where="row 1")


def test_trl_ships_training_templates() -> None:
    assert len(TRAINING) > 20


@pytest.mark.usefixtures("same_day")
@pytest.mark.parametrize("name", corners(TRAINING, CORNERS))
def test_training_templates_of_trl_give_the_ids_and_masks_of_transformers(
    base: Path, base_tokenizer: ChatTokenizer, name: str
) -> None:
    theirs = _cached(base)
    for messages in CONVERSATIONS[:2]:
        template = compiled(source(name), base_tokenizer)
        rendering, lead = template.trace(messages, where="row 1"), template._lead
        # What a prompt ends with is given to a model, so it is not learned here.
        marked = [(start - len(lead) * rendering.text.endswith(lead, 0, start), end) for start, end in rendering.turns]
        tokens = base_tokenizer.encode(rendering, marked)
        expected = theirs.apply_chat_template(messages, chat_template=source(name), return_assistant_tokens_mask=True)
        assert tokens.ids.tolist() == expected["input_ids"]
        assert tokens.learned.astype(int).tolist() == expected["assistant_masks"]


def test_all_bytes_of_a_last_character_are_learned(base_tokenizer: ChatTokenizer) -> None:
    # transformers stops at the first token of the last character, and byte-level tokenizers split an emoji in several.
    source = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}<|user|>{% endfor %}"
    rendering = compiled(source, base_tokenizer).trace([{"role": "assistant", "content": "ok 🙂"}], where="row 1")
    tokens = base_tokenizer.encode(rendering, rendering.turns)
    assert base_tokenizer.tokenizer.decode(tokens.ids[tokens.learned].tolist()) == "ok 🙂"


UNMARKED = {
    "chatml": (
        "{% for m in messages %}<|user|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|user|>assistant\n{% endif %}"
    ),
    "prompt in the user's turn": (
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content }}<|end|>\n"
        "{% else %}<|user|>{{ m.content }}<|assistant|>{% endif %}{% endfor %}"
    ),
    "the whole conversation closed": (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% else %}<|pad|>{% endif %}"
    ),
    "last turn with an empty thought": (
        "{% for m in messages %}<|{{ m.role }}|>"
        "{% if loop.last and m.role == 'assistant' %}[think]{% endif %}{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    ),
}


@pytest.mark.parametrize("name", UNMARKED)
def test_without_marks_turns_are_what_follows_the_generation_prompt(base_tokenizer: ChatTokenizer, name: str) -> None:
    turns = _turns(UNMARKED[name], base_tokenizer, chat("a?", "b!", "c?", "d!"))
    assert len(turns) == 2
    assert "b!" in turns[0]
    assert "d!" in turns[1]
    assert not any(text in turn for turn in turns for text in ("a?", "c?", "<|user|>", "<|assistant|>"))


def test_a_template_whose_prompt_is_not_a_prefix_is_refused_by_name(base_tokenizer: ChatTokenizer) -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>[think]{% endif %}"
    )
    with pytest.raises(BadBase, match="without its own generation prompt") as caught:
        _turns(source, base_tokenizer, chat("a", "b"))
    assert "the template, row 1" in caught.value.where


def test_a_template_that_changes_earlier_turns_is_refused_by_name(base_tokenizer: ChatTokenizer) -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>"
        "{{ m.content if loop.last or m.role == 'user' else 'cut' }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    with pytest.raises(BadBase, match="differently depending on what follows"):
        _turns(source, base_tokenizer, chat("a", "long answer", "c", "d"))


def test_broken_jinja_is_refused_with_its_line(base_tokenizer: ChatTokenizer) -> None:
    with pytest.raises(BadBase, match="not valid Jinja") as caught:
        compiled("fine\n{% for m in %}", base_tokenizer)
    assert caught.value.where == "the template, line 2"


@pytest.mark.parametrize(
    "source",
    [
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{{ " + "-" * 3000 + "1 }}",
        "{% if true %}" * 300 + "{% endif %}" * 300,
        "{{ " + "1" * 5000 + " }}",
    ],
    ids=["parentheses", "signs", "blocks", "digits"],
)
def test_what_python_cannot_compile_is_refused(base_tokenizer: ChatTokenizer, source: str) -> None:
    with pytest.raises(BadBase, match="cannot be compiled") as caught:
        compiled(source, base_tokenizer)
    assert caught.value.where == "the template"


@pytest.mark.parametrize(
    "source", ["{{ messages.__class__.__mro__ }}", "{{ ''.__class__.__base__.__subclasses__() }}", "{{ 1 / 0 }}"]
)
def test_a_template_cannot_leave_its_sandbox_or_crash_the_build(base_tokenizer: ChatTokenizer, source: str) -> None:
    with pytest.raises(BadBase, match="the chat template itself fails on this conversation") as raised:
        compiled(source, base_tokenizer).render(chat("a", "b"), where="row 1")
    assert raised.value.remedy.startswith("Correct the template")


def test_what_a_template_refuses_is_not_told_as_the_rows_fault(base_tokenizer: ChatTokenizer) -> None:
    source = (
        "{% for m in messages %}{{ raise_exception('no system') if m.role == 'system' else m.content }}{% endfor %}"
    )
    template = compiled(source, base_tokenizer)
    assert template.render(chat("a", "b"), where="row 1") == "ab"
    with pytest.raises(BadData, match=r"refuses this conversation \(no system\)") as raised:
        template.render(chat("a", "b", system="c"), where="row 1")
    assert raised.value.remedy.startswith("Name a template in the recipe's chat_template")


def test_a_template_that_prints_the_date_prints_the_same_one_every_day(base_tokenizer: ChatTokenizer) -> None:
    template = compiled("{{ strftime_now('%d %b %Y') }}", base_tokenizer)
    assert template.render(chat("a", "b"), where="row 1") == "26 Jul 2024"


def test_marks_inside_a_macro_are_found(base_tokenizer: ChatTokenizer) -> None:
    source = (
        "{% macro turn(m) %}{% generation %}{{ m.content }}<|end|>{% endgeneration %}{% endmacro %}"
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ turn(m) }}{% else %}<|user|>{{ m.content }}"
        "{% endif %}{% endfor %}"
    )
    assert _turns(source, base_tokenizer, chat("a", "b", "c", "d")) == ["b<|end|>", "d<|end|>"]


def test_marks_that_the_template_itself_cuts_off_are_an_error(base_tokenizer: ChatTokenizer) -> None:
    source = (
        "{% set t %}{% for m in messages %}{% generation %} {{ m.content }}{% endgeneration %}{% endfor %}{% endset %}"
        "{{ (t | trim)[:-1] }}"
    )
    with pytest.raises(BadBase, match="changes the text between its"):
        _turns(source, base_tokenizer, chat("a", "b"))


def test_the_end_of_turn_is_probed_from_the_template(base_tokenizer: ChatTokenizer) -> None:
    source = "{% for m in messages %}<|user|>{{ m.content }}<|pad|>\n<|bos|>{% endfor %}"
    assert compiled(source, base_tokenizer).probes.ends == {"<|pad|>", "<|end|>"}


def test_a_template_file_goes_before_the_settings(base_folder: Path) -> None:
    (base_folder / "chat_template.jinja").write_text("from the file")
    assert load_template(base_folder, ChatTokenizer.load(base_folder), None).source == "from the file"
    assert load_template(base_folder, ChatTokenizer.load(base_folder), "override").source == "override"


def test_of_several_named_templates_the_default_is_taken(base_folder: Path) -> None:
    several = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "chats"}]
    edit_json(base_folder / "tokenizer_config.json", lambda value: value.update(chat_template=several))
    assert load_template(base_folder, ChatTokenizer.load(base_folder), None).source == "chats"


def test_special_tokens_in_their_old_form_reach_the_template(base_folder: Path) -> None:
    old = {"content": "<|bos|>", "lstrip": False, "special": True}
    edit_json(base_folder / "tokenizer_config.json", lambda value: value.update(bos_token=old))
    template = load_template(base_folder, ChatTokenizer.load(base_folder), "{{ bos_token }}!")
    assert template.render(chat("a", "b"), where="row 1") == "<|bos|>!"


def test_stored_truncation_and_padding_are_switched_off(base_folder: Path) -> None:
    def cut(value: dict[str, object]) -> None:
        value["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}

    edit_json(base_folder / "tokenizer.json", cut)
    tokenizer = ChatTokenizer.load(base_folder)
    rendering = load_template(base_folder, tokenizer, None).trace(chat("a long question", "b"), where="row 1")
    assert len(tokenizer.encode(rendering).ids) > 3


@given(st.lists(st.text(max_size=40), min_size=2, max_size=6).filter(lambda texts: len(texts) % 2 == 0))
def test_any_text_gives_the_ids_of_transformers(base: Path, base_tokenizer: ChatTokenizer, texts: list[str]) -> None:
    messages = chat(*texts)
    rendering = load_template(base, base_tokenizer, None).trace(messages, where="row 1")
    theirs = _cached(base).apply_chat_template(messages)
    assert base_tokenizer.encode(rendering, rendering.turns).ids.tolist() == theirs["input_ids"]


@cache
def _cached(base: Path) -> Any:
    return AutoTokenizer.from_pretrained(base)


def test_the_fake_base_is_what_these_tests_think_it_is(base: Path) -> None:
    assert "{% generation %}" in json.loads((base / "tokenizer_config.json").read_bytes())["chat_template"]
