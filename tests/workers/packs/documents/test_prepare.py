"""Rows of every form as documents: what is in them, what is refused and how it is named."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ft_assets.settings.catalogue.forms import FormName
from ft_assets.workers.datasets.columns import EXAMPLES
from ft_assets.workers.packs.documents.fitting import too_long
from ft_assets.workers.packs.documents.prepare import Prepared, Preparer, PrepareSettings
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.canonical import digest
from ft_resources.errors import BadBase, BadData
from tests.fake_base import make_fake_base
from tests.workers.packs.conftest import Conversation, chat, edit_json
from tests.workers.packs.templates.templates import source

TOOLS = json.dumps([{"type": "function", "function": {"name": "look", "description": "<|end|> up", "parameters": {}}}])
CALLS = json.dumps([{"id": "", "type": "function", "function": {"name": "look", "arguments": {"key": "fox", "n": 1}}}])


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fake_base(tmp_path_factory.mktemp("base"))


def _preparer(folder: Path, form: FormName = "chat", **settings: Any) -> Preparer:
    chosen = {"chat_template": None, "learn": "all_assistant", "max_length": 100, "overlong": "reject", **settings}
    return Preparer(PrepareSettings(folder=folder, form=form, **chosen))


def _turns(conversation: Conversation) -> list[dict[str, str]]:
    empty = {"tool_calls": "", "tool_call_id": "", "name": ""}
    return [{**empty, **turn} for turn in conversation]


def _batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    schema = pa.schema([pa.field("id", pa.string()), pa.field("file", pa.string()), *EXAMPLES])
    empty = {"messages": [], "chosen": [], "rejected": [], "text": "", "tools": "", "group": "", "kind": "", "page": 0}
    empty["file"] = "rows.jsonl"
    filled = [{**empty, "row": number + 10, **row, "id": digest([number, row])} for number, row in enumerate(rows)]
    return pa.RecordBatch.from_pylist(filled, schema=schema)


def _chats(*conversations: Conversation) -> pa.RecordBatch:
    return _batch(*({"messages": _turns(conversation)} for conversation in conversations))


def _text(base: Path, prepared: Prepared, document: int, *, learned: bool = False) -> str:
    span = slice(*prepared.offsets[document : document + 2].tolist())
    ids = prepared.input_ids[span][prepared.learned[span]] if learned else prepared.input_ids[span]
    return ChatTokenizer.load(base).tokenizer.decode(ids.tolist(), skip_special_tokens=False)


def test_a_conversation_is_a_document_with_the_assistant_s_turns_learned(base: Path) -> None:
    batch = _chats(chat("hi", "yes", "and?", "no", system="short"), chat("x", "y"))
    prepared = _preparer(base).prepare(batch)
    assert _text(base, prepared, 0) == (
        "<|system|>short<|end|><|user|>hi<|end|><|assistant|>yes<|end|><|user|>and?<|end|><|assistant|>no<|end|>"
    )
    assert _text(base, prepared, 0, learned=True) == "yes<|end|>no<|end|>"
    assert prepared.controls.tolist() == [10, 4]
    assert prepared.rows.tolist() == [10, 11]
    assert [bytes(each).hex() for each in prepared.ids] == batch.column("id").to_pylist()
    last = _preparer(base, learn="last_assistant").prepare(batch)
    assert _text(base, last, 0, learned=True) == "no<|end|>"


def test_settings_and_documents_travel_between_processes(base: Path) -> None:
    preparer = _preparer(base)
    assert pickle.loads(pickle.dumps(preparer.settings)) == preparer.settings
    prepared = preparer.prepare(_chats(chat("a", "b")))
    assert np.array_equal(pickle.loads(pickle.dumps(prepared)).input_ids, prepared.input_ids)


def test_a_text_is_learned_from_its_second_token_to_its_end_token(base: Path) -> None:
    prepared = _preparer(base, "text").prepare(_batch({"text": "the <|end|> fox"}, {"text": "x"}))
    assert _text(base, prepared, 0) == "the <|end|> fox<|end|>"
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
    prepared = _preparer(base_folder, "text").prepare(_batch({"text": "fox"}))
    assert _text(base_folder, prepared, 0) == "<|bos|>fox<|end|>"
    assert prepared.controls.tolist() == [2]


def test_a_tokenizer_without_an_end_token_cannot_end_texts(base_folder: Path) -> None:
    edit_json(base_folder / "tokenizer_config.json", lambda value: value.pop("eos_token"))
    with pytest.raises(BadBase, match="names no end-of-text token"):
        _preparer(base_folder, "text")


def _pair(prompt: Conversation, chosen: str, rejected: str) -> dict[str, Any]:
    return {
        "messages": _turns(prompt),
        "chosen": _turns([{"role": "assistant", "content": chosen}]),
        "rejected": _turns([{"role": "assistant", "content": rejected}]),
    }


def test_a_preference_is_two_documents_and_only_the_answers_are_learned(base: Path) -> None:
    batch = _batch(_pair(chat("a", "earlier", "b"), "good", "bad"), _pair(chat("c"), "yes", "no"))
    prepared = _preparer(base, "preference").prepare(batch)
    assert prepared.example.tolist() == [0, 0, 1, 1]
    learned = [_text(base, prepared, number, learned=True) for number in range(4)]
    assert learned == ["good<|end|>", "bad<|end|>", "yes<|end|>", "no<|end|>"]
    assert _text(base, prepared, 1).startswith("<|user|>a<|end|><|assistant|>earlier<|end|><|user|>b<|end|>")


@pytest.mark.parametrize("overlong", ["reject", "drop"])
def test_what_is_too_long_is_left_out_and_named(base: Path, overlong: str) -> None:
    batch = _chats(chat("a", "b"), chat("c" * 50, "d"), chat("e" * 70, "f"))
    prepared = _preparer(base, max_length=20, overlong=overlong).prepare(batch)
    assert prepared.example.tolist() == [0]
    assert prepared.dropped.tolist() == [[11, 55], [12, 75]]
    assert prepared.dropped_files == ("rows.jsonl", "rows.jsonl")
    error = too_long(prepared.dropped, prepared.dropped_files, 20, None, plain=False)
    assert error.where == "rows 11, 12 of rows.jsonl"
    assert "the longest, row 12, has 75" in error.what
    assert error.remedy.startswith("Shorten them, raise packing.max_length in the recipe, or set")
    within = too_long(prepared.dropped, prepared.dropped_files, 20, 256, plain=False)
    assert "raise packing.max_length in the recipe (the base reads up to 256 tokens at once)" in within.remedy
    text = too_long(prepared.dropped, prepared.dropped_files, 20, 20, plain=True)
    assert text.remedy == "Shorten them, or set packing.overlong to split or drop."


def test_rows_of_several_files_that_are_too_long_are_named_with_their_files() -> None:
    rows = np.array([(1, 90), (1, 80), (7, 95), (2, 70)])
    error = too_long(rows, ["c/FAQ.html", "FAQ.html", "FAQ.html", "b.md"], 20, None, plain=True)
    assert error.where == "rows 1, 7 of FAQ.html, row 2 of b.md, row 1 of c/FAQ.html"
    assert "the longest, row 7 of FAQ.html, has 95" in error.what
    many = too_long(np.array([(1, 30)] * 12), [f"{number:02}.md" for number in range(12)], 20, None, plain=True)
    assert many.where.endswith("row 1 of 08.md, row 1 of 09.md …")


def test_truncation_cuts_the_longest_text_that_is_not_learned(base: Path) -> None:
    batch = _chats(chat("k" * 30, "answer", system="s" * 20), chat("u", "v" * 40))
    prepared = _preparer(base, max_length=35, overlong="truncate").prepare(batch)
    assert prepared.example.tolist() == [0]
    assert prepared.offsets.tolist() == [0, 35]
    assert _text(base, prepared, 0).startswith("<|system|>" + "s" * 20 + "<|end|><|user|>k")
    assert _text(base, prepared, 0, learned=True) == "answer<|end|>"
    assert prepared.controls.tolist() == [6]
    # The answer of the second would have had to be cut.
    assert prepared.dropped[:, 0].tolist() == [11]


def test_truncated_preferences_keep_one_prompt(base: Path) -> None:
    batch = _batch(_pair(chat("k" * 30), "a long answer" * 2, "short"))
    prepared = _preparer(base, "preference", max_length=40, overlong="truncate").prepare(batch)
    prompts = [_text(base, prepared, number).split("<|assistant|>")[0] for number in range(2)]
    assert prompts[0] == prompts[1]
    assert _text(base, prepared, 1, learned=True) == "short<|end|>"
    assert np.diff(prepared.offsets).max() <= 40
    assert prepared.shortened[0] == prepared.shortened[1] > 0


def test_truncated_preferences_that_would_get_two_prompts_are_left_out_and_named(base: Path) -> None:
    # The longest text that is not learned is what a tool returned to the chosen answer alone.
    template = (
        "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>{% generation %}{{ m.content }}<|end|>"
        "{% endgeneration %}{% else %}<|user|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
    )
    chosen = [{"role": "assistant", "content": "look"}, {"role": "user", "content": "r" * 40}, *chat("", "yes")[1:]]
    row = {"messages": _turns(chat("p" * 30)), "chosen": _turns(chosen), "rejected": _turns(chat("", "no")[1:])}
    preparer = _preparer(base, "preference", chat_template=template, max_length=60, overlong="truncate")
    prepared = preparer.prepare(_batch(_pair(chat("a"), "b", "c"), row))
    assert prepared.example.tolist() == [0, 0]
    assert prepared.dropped[:, 0].tolist() == [11]


CUES = {
    "Llama 2": (
        "{% for m in messages %}{% if m.role == 'user' %}<|user|>[INST] {{ m.content }} [/INST]"
        "{% else %}{% generation %} {{ m.content }}<|end|>{% endgeneration %}{% endif %}{% endfor %}"
    ),
    "Alpaca": (
        "{% for m in messages %}{% if m.role == 'user' %}### Instruction:\n{{ m.content.strip() }}\n\n### Response:\n"
        "{% else %}{% generation %}{{ m.content }}<|end|>{% endgeneration %}{% endif %}{% endfor %}"
    ),
}


@pytest.mark.parametrize("spelled", ["", "<|end|>"])
@pytest.mark.parametrize("name", CUES)
def test_truncation_keeps_all_that_the_template_writes(base: Path, name: str, spelled: str) -> None:
    user = spelled + "a dog and a cat " * 12
    whole = _preparer(base, chat_template=CUES[name], max_length=1000).prepare(_chats(chat(user, "Once.")))
    before, behind = _text(base, whole, 0).split(user.strip())
    assert "Once." in behind
    full = len(whole.input_ids)
    for max_length in range(full - 30, full):
        preparer = _preparer(base, chat_template=CUES[name], max_length=max_length, overlong="truncate")
        prepared = preparer.prepare(_chats(chat(user, "Once.")))
        text = _text(base, prepared, 0)
        assert text.startswith(before + user[:20])
        assert text.endswith(behind)
        assert len(prepared.input_ids) == max_length
        assert _text(base, prepared, 0, learned=True) == _text(base, whole, 0, learned=True)


def test_a_row_of_which_truncation_would_take_a_whole_message_is_left_out_and_named(base: Path) -> None:
    batch = _chats(chat("u" * 9, "v" * 20))
    # Three tokens of control, the answer and its end.
    least = 3 + 20 + 1
    kept = _preparer(base, max_length=least + 1, overlong="truncate").prepare(batch)
    assert _text(base, kept, 0) == "<|user|>u<|end|><|assistant|>" + "v" * 20 + "<|end|>"
    for max_length in (least, least - 1):
        gone = _preparer(base, max_length=max_length, overlong="truncate").prepare(batch)
        assert gone.dropped.tolist() == [[10, least + 9]]


def test_a_content_that_the_template_changes_is_not_cut(base: Path) -> None:
    asking = "{% for m in messages %}<|{{ m.role }}|>{% if m.content[0] == 'k' %}hint {% endif %}"
    template = asking + "{% generation %}{{ m.content }}{% endgeneration %}<|end|>{% endfor %}"
    template = template.replace("{% generation %}", "{% if m.role == 'assistant' %}{% generation %}")
    template = template.replace("{% endgeneration %}", "{% endgeneration %}{% else %}{{ m.content }}{% endif %}")
    preparer = _preparer(base, chat_template=template, max_length=30, overlong="truncate")
    prepared = preparer.prepare(_chats(chat("k" * 30, "yes"), chat("n" * 30, "yes")))
    assert prepared.dropped[:, 0].tolist() == [10]
    assert _text(base, prepared, 0).endswith("n<|end|><|assistant|>yes<|end|>")


def test_split_texts_have_every_token_once(base: Path) -> None:
    batch = _batch({"text": "x"}, {"text": "abc" * 50})
    whole = _preparer(base, "text", max_length=1000).prepare(batch)
    prepared = _preparer(base, "text", max_length=20, overlong="split").prepare(batch)
    assert prepared.input_ids.tolist() == whole.input_ids.tolist()
    assert prepared.example.tolist() == [0] + [1] * (len(prepared.offsets) - 2)
    assert np.diff(prepared.offsets).max() <= 20
    assert not prepared.learned[prepared.offsets[:-1]].any()
    assert prepared.controls.tolist() == [1] + [0] * (len(prepared.offsets) - 3) + [1]


def test_an_empty_batch_is_no_documents(base: Path) -> None:
    for form in ("chat", "text", "preference"):
        prepared = _preparer(base, form).prepare(_batch().slice(0, 0))
        assert len(prepared.input_ids) == len(prepared.example) == len(prepared.ids) == 0
        assert prepared.offsets.tolist() == [0]


texts = st.text(st.sampled_from("ab \n<|end|>🙂"), min_size=1, max_size=8)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=8), st.integers(1, 8))
def test_documents_do_not_depend_on_the_batch(base: Path, pairs: list[tuple[str, str]], cut: int) -> None:
    batch = _chats(*(chat(*pair) for pair in pairs))
    whole = _preparer(base, max_length=20, overlong="truncate").prepare(batch)
    other = _preparer(base, max_length=20, overlong="truncate")
    parts = [other.prepare(batch.slice(start, cut)) for start in range(0, len(pairs), cut)]
    for name in ("input_ids", "learned", "controls", "shortened", "rows", "dropped"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name)), name
    assert sum(part.trimmed for part in parts) == whole.trimmed


def test_tools_and_calls_reach_the_template_as_objects(base: Path) -> None:
    messages = _turns(chat("look it up", "", "x"))
    messages[1]["tool_calls"] = CALLS
    messages[2] |= {"role": "tool", "name": "look"}
    rows = [{"messages": [*messages, *_turns([{"role": "assistant", "content": "done"}])], "tools": TOOLS}]
    prepared = _preparer(base, chat_template=source("qwen2_5_training"), max_length=4000).prepare(_batch(*rows))
    text = _text(base, prepared, 0)
    assert '{"name": "look", "description": "<|end|> up", "parameters": {}}' in text
    assert '<tool_call>\n{"name": "look", "arguments": {"key": "fox", "n": 1}}\n</tool_call>' in text
    learned = _text(base, prepared, 0, learned=True)
    assert '"arguments": {"key": "fox", "n": 1}' in learned
    assert "done<|im_end|>" in learned
    assert "<tool_response>" not in learned
    # What a tool's description spells is no control token.
    assert prepared.controls.tolist() == [0]


@pytest.mark.parametrize("what", ["tools", "calls"])
def test_a_template_that_ignores_tools_is_refused_by_row(base: Path, what: str) -> None:
    messages = _turns(chat("hi", "there"))
    if what == "calls":
        messages[1]["tool_calls"] = CALLS
    row = {"messages": messages, "tools": TOOLS if what == "tools" else ""}
    with pytest.raises(
        BadData, match="definitions of the tools" if what == "tools" else "tool call 1 of message 2"
    ) as caught:
        _preparer(base).prepare(_batch({"messages": _turns(chat("a", "b"))}, row))
    assert "row 11 of the upload" in caught.value.where


LOSING = {
    "drops the system turn": "{% for m in messages if m.role != 'system' %}T{% endfor %}",
    "cuts contents": "{% for m in messages %}{% generation %}{{ m.content[:3] }}{% endgeneration %}<|end|>{% endfor %}",
    "hides the user": "{% for m in messages if m.role != 'user' %}T{% endfor %}",
}
TURN = "<|{{ m.role }}|>{% generation %}{{ m.content }}{% endgeneration %}<|end|>"


@pytest.mark.parametrize("name", LOSING)
def test_a_template_that_loses_something_is_refused_by_row(base: Path, name: str) -> None:
    preparer = _preparer(base, chat_template=LOSING[name].replace("T", TURN))
    with pytest.raises(BadData, match="leaves out the content of message") as caught:
        preparer.prepare(_chats(chat("one thing", "another", system="be kind")))
    assert caught.value.where.startswith("row 10 of the upload")
    assert "kind" not in str(caught.value)
    assert "thing" not in str(caught.value)


def test_trimmed_contents_are_counted(base: Path) -> None:
    preparer = _preparer(
        base, chat_template=f"{{% for m in messages %}}{TURN.replace('t }}', 't | trim }}')}{{% endfor %}}"
    )
    batch = _chats(chat("a", "b"), chat(" a", "b"), chat("a", "b\n"), chat("a <|end|> ", "b"))
    assert preparer.prepare(batch).trimmed == 3


def test_reasoning_of_earlier_turns_may_go_but_not_the_last(base: Path) -> None:
    late = "{{ m.content if loop.last else m.content.split('</think>')[-1] }}"
    text = "{% for m in messages %}<|{{ m.role }}|>{% generation %}R{% endgeneration %}<|end|>{% endfor %}"
    conversation = chat("a", "<think>deep</think>b", "c", "<think>thought</think>d")
    prepared = _preparer(base, chat_template=text.replace("R", late)).prepare(_chats(conversation))
    assert "deep" not in _text(base, prepared, 0)
    assert "thought" in _text(base, prepared, 0)
    never = "{{ m.content.split('</think>')[-1] }}"
    with pytest.raises(BadData, match="content of message 4"):
        _preparer(base, chat_template=text.replace("R", never)).prepare(_chats(conversation))


@pytest.mark.parametrize(
    ("conversation", "problem"),
    [
        ([{"role": "system", "content": "only this"}], "nothing to learn"),
        (chat("a", ""), None),
        (chat("", "a"), None),
    ],
)
def test_unusual_conversations(base: Path, conversation: Conversation, problem: str | None) -> None:
    batch = _chats(chat("a", "b"), conversation)
    if problem is None:
        # With an empty answer, the end of the turn is what there is to learn.
        assert _text(base, _preparer(base).prepare(batch), 1, learned=True).endswith("<|end|>")
        return
    with pytest.raises(BadData, match=problem) as caught:
        _preparer(base).prepare(batch)
    assert caught.value.where == "row 11 of the upload"


def test_one_token_is_not_an_example(base: Path) -> None:
    preparer = _preparer(base, chat_template="{% generation %}{{ messages[0].content }}{% endgeneration %}")
    with pytest.raises(BadData, match="nothing to learn"):
        preparer.prepare(_chats([{"role": "assistant", "content": "x"}]))


def test_a_million_tokens_are_an_example(base: Path) -> None:
    prepared = _preparer(base, max_length=2_000_000).prepare(_chats(chat("q", "xyz" * 400_000)))
    assert len(prepared.input_ids) == 5 + 1_200_000
    assert int(prepared.learned.sum()) == 1_200_001


def test_a_template_that_raises_on_the_order_of_roles_names_the_row(base: Path) -> None:
    text = (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}" + TURN + "{% endfor %}"
    )
    with pytest.raises(BadData, match="roles must alternate") as caught:
        _preparer(base, chat_template=text).prepare(_chats(chat("a", "b"), chat("a", "b", system="s")))
    assert caught.value.where.startswith("row 11 of the upload")


ENDLESS = {
    "loops": "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "calls": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "doubling": "{% set ns = namespace(t='ab') %}{% for i in range(60) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
    "stringing": "{% set ns = namespace(t='ab') %}{% for i in range(60) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
    "multiplying": "{{ 'a' * 10000000000 }}",
    "power": "{{ 10 ** (10 ** 10) }}",
    "printing": "{% set t = 'a' * 1000000 %}{% for i in range(99999) %}{{ t }}{% endfor %}",
}


# Until it is ended, an endless template takes all the time that one may take.
@pytest.mark.statistics
@pytest.mark.parametrize("name", ENDLESS)
def test_a_template_without_end_is_ended(base: Path, name: str) -> None:
    with pytest.raises(BadBase, match="without end") as caught:
        _preparer(base, chat_template=ENDLESS[name])
    assert "the recipe's chat_template" in caught.value.where


def test_a_template_that_never_ends_on_one_row_names_it(base: Path) -> None:
    endless = "{% for m in messages %}{% if m.content == 'x' %}E{% endif %}T{% endfor %}"
    preparer = _preparer(base, chat_template=endless.replace("E", ENDLESS["loops"]).replace("T", TURN))
    with pytest.raises(BadBase, match="rounds without end") as caught:
        preparer.prepare(_chats(chat("a", "b"), chat("x", "b")))
    assert caught.value.where.startswith("row 11 of the upload")
