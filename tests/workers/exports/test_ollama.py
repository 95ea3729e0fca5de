"""Ollama's template writes the prompts of training; where it cannot, the Modelfile has none and says so."""

import json
import re
from pathlib import Path

import pytest

from ft_assets.workers.exports.ollama import modelfile, turns_of
from ft_assets.workers.exports.pre_tokenizers import pre_tokenizer_of
from ft_assets.workers.templates.rendering import Messages
from ft_assets.workers.templates.template import ChatTemplate
from tests.fake_base import CHAT_TEMPLATE, make_fake_base

CHATML = (
    "{% for m in messages %}{% if loop.first and m.role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n"
    "{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}"
    "<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set s = messages[0].content + '\n\n' %}{% set rest = "
    "messages[1:] %}{% else %}{% set s = '' %}{% set rest = messages %}{% endif %}{% for m in rest %}{% if m.role == "
    "'user' %}[INST] {% if loop.last %}{{ s }}{% endif %}{{ m.content }} [/INST]{% else %} {{ m.content }}{{ eos_token "
    "}}{% endif %}{% endfor %}"
)
TALK: Messages = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "three?"},
]


def template(source: str) -> ChatTemplate:
    return ChatTemplate(
        source, name="t", variables={"bos_token": "<s>", "eos_token": "</s>"}, control=re.compile(r"<\|[a-z_]+\|>")
    )


@pytest.mark.parametrize("source", [CHAT_TEMPLATE, CHATML, LLAMA3])
@pytest.mark.parametrize("messages", [TALK, TALK[:2], TALK[1:], TALK[1:2]])
def test_prompts_are_those_of_the_jinja_template(source: str, messages: Messages) -> None:
    turns = turns_of(template(source))
    assert turns is not None
    assert turns.render(messages) == template(source).render(messages, where="", add_generation_prompt=True)


def test_a_systems_text_that_the_template_writes_by_itself_gives_way_to_one_that_is_given() -> None:
    turns = turns_of(template(CHATML))
    assert turns is not None
    assert turns.go().startswith(
        "{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ else }}"
        "<|im_start|>system\nBe kind.<|im_end|>\n{{ end }}{{ range .Messages }}"
    )


def test_a_token_that_the_engine_writes_itself_is_not_written_twice() -> None:
    turns = turns_of(template(LLAMA3))
    assert turns is not None
    assert "<s>" in turns.go()
    assert "<s>" not in turns.without("<s>").go()


@pytest.mark.parametrize(
    "source",
    [
        MISTRAL,
        "{% for m in messages %}{{ loop.index }}: {{ m.content }}\n{% endfor %}",
        "{{ messages[-1].content }}",
        "{% for m in messages %}{{ '{{' }} {{ m.content }}{% endfor %}",
    ],
)
def test_a_template_that_does_more_than_that_is_left_to_engines_that_run_it(source: str) -> None:
    assert turns_of(template(source)) is None
    text = modelfile(file="model.gguf", turns=None, stops=["</s>"], context_length=512)
    assert "TEMPLATE" not in text
    assert "llama-server --jinja" in text
    assert 'PARAMETER stop "</s>"' in text


TEXTS = ["what colour is thing 12?", "it's grey\n\nor is it"]


def retold(folder: Path, pattern: str) -> Path:
    """The base with a tokenizer that splits by ``pattern`` and has whole words for what that leaves together."""
    make_fake_base(folder)
    settings = json.loads((folder / "tokenizer.json").read_bytes())
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    settings["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            split,
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        ],
    }
    merged = {**settings["model"]["vocab"], "12": 287}
    merged = {token: number for token, number in merged.items() if number != 287 or token == "12"}
    settings["model"]["vocab"] = merged
    settings["model"]["merges"] = [
        each for each in settings["model"]["merges"] if "".join(each) in merged and "12" not in each
    ] + [["1", "2"]]
    (folder / "tokenizer.json").write_text(json.dumps(settings))
    return folder


def test_the_way_that_gives_the_tokenizers_own_ids_is_taken(tmp_path: Path) -> None:
    assert pre_tokenizer_of(make_fake_base(tmp_path / "plain"), TEXTS) == "gpt-2"
    assert pre_tokenizer_of(retold(tmp_path / "digits", r"\p{N}| ?\p{L}+|\s+|[^\s\p{L}\p{N}]"), TEXTS) == "smollm"


def test_a_tokenizer_that_splits_otherwise_has_none(tmp_path: Path) -> None:
    assert pre_tokenizer_of(retold(tmp_path / "letters", "."), [*TEXTS, "the question is the question"]) == ""


def test_what_is_not_split_at_all_needs_none(tmp_path: Path) -> None:
    folder = make_fake_base(tmp_path / "base")
    settings = json.loads((folder / "tokenizer.json").read_bytes())
    (folder / "tokenizer.json").write_text(json.dumps({**settings, "pre_tokenizer": None}))
    assert pre_tokenizer_of(folder, TEXTS) == ""
