"""Rows of every form as documents: what is in them, what is refused and how it is named."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase, BadData
from tests.workers.packs.conftest import Conversation, chat, edit_json
from tests.workers.packs.documents.prepared import (
    CALLS,
    TOOLS,
    batch_of,
    chats_of,
    make_preparer,
    pair_of,
    text_of,
    turns_of,
)
from tests.workers.packs.templates.templates import source


def test_a_conversation_is_a_document_with_the_assistant_s_turns_learned(base: Path) -> None:
    batch = chats_of(chat("hi", "yes", "and?", "no", system="short"), chat("x", "y"))
    prepared = make_preparer(base).prepare(batch)
    assert text_of(base, prepared, 0) == (
        "<|system|>short<|end|><|user|>hi<|end|><|assistant|>yes<|end|><|user|>and?<|end|><|assistant|>no<|end|>"
    )
    assert text_of(base, prepared, 0, learned=True) == "yes<|end|>no<|end|>"
    assert prepared.controls.tolist() == [10, 4]
    assert prepared.rows.tolist() == [10, 11]
    assert [bytes(each).hex() for each in prepared.ids] == batch.column("id").to_pylist()
    last = make_preparer(base, learn="last_assistant").prepare(batch)
    assert text_of(base, last, 0, learned=True) == "no<|end|>"


def test_settings_and_documents_travel_between_processes(base: Path) -> None:
    preparer = make_preparer(base)
    assert pickle.loads(pickle.dumps(preparer.settings)) == preparer.settings
    prepared = preparer.prepare(chats_of(chat("a", "b")))
    assert np.array_equal(pickle.loads(pickle.dumps(prepared)).input_ids, prepared.input_ids)


def test_a_text_is_learned_from_its_second_token_to_its_end_token(base: Path) -> None:
    prepared = make_preparer(base, "text").prepare(batch_of({"text": "the <|end|> fox"}, {"text": "x"}))
    assert text_of(base, prepared, 0) == "the <|end|> fox<|end|>"
    assert prepared.learned.tolist() == [place not in prepared.offsets for place in range(len(prepared.input_ids))]
    assert prepared.controls.tolist() == [1, 1]
    end = ChatTokenizer.load(base).token_id("eos_token")
    assert prepared.input_ids[: prepared.offsets[1]].tolist().count(end) == 1
    assert prepared.input_ids[prepared.offsets[1] :].tolist()[1:] == [end]


def test_a_tokenizer_that_begins_texts_begins_them(base_folder: Path) -> None:
    def begin(value: dict[str, Any]) -> None:
        value["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<|bos|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<|bos|>": {"id": "<|bos|>", "ids": [1], "tokens": ["<|bos|>"]}},
        }

    edit_json(base_folder / "tokenizer.json", begin)
    prepared = make_preparer(base_folder, "text").prepare(batch_of({"text": "fox"}))
    assert text_of(base_folder, prepared, 0) == "<|bos|>fox<|end|>"
    assert prepared.controls.tolist() == [2]


def test_a_tokenizer_without_an_end_token_cannot_end_texts(base_folder: Path) -> None:
    edit_json(base_folder / "tokenizer_config.json", lambda value: value.pop("eos_token"))
    with pytest.raises(BadBase, match="names no end-of-text token"):
        make_preparer(base_folder, "text")


def test_a_preference_is_two_documents_and_only_the_answers_are_learned(base: Path) -> None:
    batch = batch_of(pair_of(chat("a", "earlier", "b"), "good", "bad"), pair_of(chat("c"), "yes", "no"))
    prepared = make_preparer(base, "preference").prepare(batch)
    assert prepared.example.tolist() == [0, 0, 1, 1]
    learned = [text_of(base, prepared, number, learned=True) for number in range(4)]
    assert learned == ["good<|end|>", "bad<|end|>", "yes<|end|>", "no<|end|>"]
    assert text_of(base, prepared, 1).startswith("<|user|>a<|end|><|assistant|>earlier<|end|><|user|>b<|end|>")


_TRIMS = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'user' %}{{ m.content }}<|end|>{% else %}{% generation %}"
    "{% set said = m.content %}{% if not loop.last and '</think>' in said %}{% set said = said.split('</think>')[1] %}"
    "{% endif %}{{ said.strip() }}<|end|>{% endgeneration %}{% endif %}{% endfor %}"
)


def test_pairs_that_are_equal_in_tokens_are_left_out_and_named(base: Path) -> None:
    def thinking(thoughts: str) -> list[dict[str, str]]:
        return turns_of(chat("", f"<think>{thoughts}</think>a", "b", "c")[1:])

    different = pair_of(chat("c"), "yes", "no")
    thoughts = {"messages": turns_of(chat("d")), "chosen": thinking("one"), "rejected": thinking("two")}
    batch = batch_of(
        pair_of(chat("a"), "yes", " yes"), different, pair_of(chat("b"), "no\n", "no"), thoughts, different
    )
    prepared = make_preparer(base, "preference", chat_template=_TRIMS).prepare(batch)
    assert prepared.equal.tolist() == [10, 12, 13]
    assert prepared.rows.tolist() == [11, 14]
    alone = make_preparer(base, "preference", chat_template=_TRIMS).prepare(batch_of(different, different))
    assert prepared.input_ids.tolist() == alone.input_ids.tolist()
    nothing = make_preparer(base, "preference", chat_template=_TRIMS).prepare(batch.slice(0, 1))
    assert (nothing.equal.tolist(), len(nothing.input_ids)) == ([10], 0)


def test_an_empty_batch_is_no_documents(base: Path) -> None:
    for form in ("chat", "text", "preference"):
        prepared = make_preparer(base, form).prepare(batch_of().slice(0, 0))
        assert len(prepared.input_ids) == len(prepared.example) == len(prepared.ids) == 0
        assert prepared.offsets.tolist() == [0]


texts = st.text(st.sampled_from("ab \n<|end|>🙂"), min_size=1, max_size=8)


@settings(max_examples=10)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=8), st.integers(1, 8))
def test_documents_do_not_depend_on_the_batch(base: Path, pairs: list[tuple[str, str]], cut: int) -> None:
    batch = chats_of(*(chat(*pair) for pair in pairs))
    whole = make_preparer(base, max_length=20, overlong="truncate").prepare(batch)
    other = make_preparer(base, max_length=20, overlong="truncate")
    parts = [other.prepare(batch.slice(start, cut)) for start in range(0, len(pairs), cut)]
    for name in ("input_ids", "learned", "controls", "shortened", "rows", "dropped"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name)), name
    assert sum(part.trimmed for part in parts) == whole.trimmed


def test_tools_and_calls_reach_the_template_as_objects(base: Path) -> None:
    messages = turns_of(chat("look it up", "", "x"))
    messages[1]["tool_calls"] = CALLS
    messages[2] |= {"role": "tool", "name": "look"}
    rows = [{"messages": [*messages, *turns_of([{"role": "assistant", "content": "done"}])], "tools": TOOLS}]
    prepared = make_preparer(base, chat_template=source("qwen2_5_training"), max_length=4000).prepare(batch_of(*rows))
    text = text_of(base, prepared, 0)
    assert '{"name": "look", "description": "<|end|> up", "parameters": {}}' in text
    assert '<tool_call>\n{"name": "look", "arguments": {"key": "fox", "n": 1}}\n</tool_call>' in text
    learned = text_of(base, prepared, 0, learned=True)
    assert '"arguments": {"key": "fox", "n": 1}' in learned
    assert "done<|im_end|>" in learned
    assert "<tool_response>" not in learned
    # What a tool's description spells is no control token.
    assert prepared.controls.tolist() == [0]


@pytest.mark.parametrize("what", ["tools", "calls"])
def test_a_template_that_ignores_tools_is_refused_by_row(base: Path, what: str) -> None:
    messages = turns_of(chat("hi", "there"))
    if what == "calls":
        messages[1]["tool_calls"] = CALLS
    row = {"messages": messages, "tools": TOOLS if what == "tools" else ""}
    with pytest.raises(
        BadData, match="definitions of the tools" if what == "tools" else "tool call 1 of message 2"
    ) as caught:
        make_preparer(base).prepare(batch_of({"messages": turns_of(chat("a", "b"))}, row))
    assert "row 11 of the upload" in caught.value.where


LOSING = {
    "drops the system turn": "{% for m in messages if m.role != 'system' %}T{% endfor %}",
    "cuts contents": "{% for m in messages %}{% generation %}{{ m.content[:3] }}{% endgeneration %}<|end|>{% endfor %}",
    "hides the user": "{% for m in messages if m.role != 'user' %}T{% endfor %}",
}
TURN = "<|{{ m.role }}|>{% generation %}{{ m.content }}{% endgeneration %}<|end|>"


@pytest.mark.parametrize("name", LOSING)
def test_a_template_that_loses_something_is_refused_by_row(base: Path, name: str) -> None:
    preparer = make_preparer(base, chat_template=LOSING[name].replace("T", TURN))
    with pytest.raises(BadData, match="leaves out the content of message") as caught:
        preparer.prepare(chats_of(chat("one thing", "another", system="be kind")))
    assert caught.value.where.startswith("row 10 of the upload")
    assert "kind" not in str(caught.value)
    assert "thing" not in str(caught.value)


def test_trimmed_contents_are_counted(base: Path) -> None:
    preparer = make_preparer(
        base, chat_template=f"{{% for m in messages %}}{TURN.replace('t }}', 't | trim }}')}{{% endfor %}}"
    )
    batch = chats_of(chat("a", "b"), chat(" a", "b"), chat("a", "b\n"), chat("a <|end|> ", "b"))
    assert preparer.prepare(batch).trimmed == 3


def test_reasoning_of_earlier_turns_may_go_but_not_the_last(base: Path) -> None:
    late = "{{ m.content if loop.last else m.content.split('</think>')[-1] }}"
    text = "{% for m in messages %}<|{{ m.role }}|>{% generation %}R{% endgeneration %}<|end|>{% endfor %}"
    conversation = chat("a", "<think>deep</think>b", "c", "<think>thought</think>d")
    prepared = make_preparer(base, chat_template=text.replace("R", late)).prepare(chats_of(conversation))
    assert "deep" not in text_of(base, prepared, 0)
    assert "thought" in text_of(base, prepared, 0)
    never = "{{ m.content.split('</think>')[-1] }}"
    with pytest.raises(BadData, match="content of message 4"):
        make_preparer(base, chat_template=text.replace("R", never)).prepare(chats_of(conversation))


@pytest.mark.parametrize(
    ("conversation", "problem"),
    [
        ([{"role": "system", "content": "only this"}], "nothing to learn"),
        (chat("a", ""), None),
        (chat("", "a"), None),
    ],
)
def test_unusual_conversations(base: Path, conversation: Conversation, problem: str | None) -> None:
    batch = chats_of(chat("a", "b"), conversation)
    if problem is None:
        # With an empty answer, the end of the turn is what there is to learn.
        assert text_of(base, make_preparer(base).prepare(batch), 1, learned=True).endswith("<|end|>")
        return
    with pytest.raises(BadData, match=problem) as caught:
        make_preparer(base).prepare(batch)
    assert caught.value.where == "row 11 of the upload"


def test_one_token_is_not_an_example(base: Path) -> None:
    preparer = make_preparer(base, chat_template="{% generation %}{{ messages[0].content }}{% endgeneration %}")
    with pytest.raises(BadData, match="nothing to learn"):
        preparer.prepare(chats_of([{"role": "assistant", "content": "x"}]))


def test_a_million_tokens_are_an_example(base: Path) -> None:
    prepared = make_preparer(base, max_length=2_000_000).prepare(chats_of(chat("q", "xyz" * 400_000)))
    assert len(prepared.input_ids) == 5 + 1_200_000
    assert int(prepared.learned.sum()) == 1_200_001


def test_a_template_that_raises_on_the_order_of_roles_names_the_row(base: Path) -> None:
    text = (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}" + TURN + "{% endfor %}"
    )
    with pytest.raises(BadData, match="roles must alternate") as caught:
        make_preparer(base, chat_template=text).prepare(chats_of(chat("a", "b"), chat("a", "b", system="s")))
    assert caught.value.where.startswith("row 11 of the upload")


ENDLESS = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"


def test_a_template_without_end_is_ended(base: Path) -> None:
    with pytest.raises(BadBase, match="without end") as caught:
        make_preparer(base, chat_template=ENDLESS)
    assert "the recipe's chat_template" in caught.value.where


def test_a_template_that_never_ends_on_one_row_names_it(base: Path) -> None:
    endless = "{% for m in messages %}{% if m.content == 'x' %}E{% endif %}T{% endfor %}"
    preparer = make_preparer(base, chat_template=endless.replace("E", ENDLESS).replace("T", TURN))
    with pytest.raises(BadBase, match="loops without end") as caught:
        preparer.prepare(chats_of(chat("a", "b"), chat("x", "b")))
    assert caught.value.where.startswith("row 11 of the upload")
