"""What is too long: left out, cut, or split, as the recipe says, and named."""

from pathlib import Path

import numpy as np
import pytest

from ft_assets.workers.packs.documents.fitting import too_long
from tests.workers.packs.conftest import chat
from tests.workers.packs.documents.prepared import batch_of, chats_of, make_preparer, pair_of, text_of, turns_of

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


@pytest.mark.parametrize("overlong", ["reject", "drop"])
def test_what_is_too_long_is_left_out_and_named(base: Path, overlong: str) -> None:
    batch = chats_of(chat("a", "b"), chat("c" * 50, "d"), chat("e" * 70, "f"))
    prepared = make_preparer(base, max_length=20, overlong=overlong).prepare(batch)
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
    batch = chats_of(chat("k" * 30, "answer", system="s" * 20), chat("u", "v" * 40))
    prepared = make_preparer(base, max_length=35, overlong="truncate").prepare(batch)
    assert prepared.example.tolist() == [0]
    assert prepared.offsets.tolist() == [0, 35]
    assert text_of(base, prepared, 0).startswith("<|system|>" + "s" * 20 + "<|end|><|user|>k")
    assert text_of(base, prepared, 0, learned=True) == "answer<|end|>"
    assert prepared.controls.tolist() == [6]
    # The answer of the second would have had to be cut.
    assert prepared.dropped[:, 0].tolist() == [11]


def test_truncated_preferences_keep_one_prompt(base: Path) -> None:
    batch = batch_of(pair_of(chat("k" * 30), "a long answer" * 2, "short"))
    prepared = make_preparer(base, "preference", max_length=40, overlong="truncate").prepare(batch)
    prompts = [text_of(base, prepared, number).split("<|assistant|>")[0] for number in range(2)]
    assert prompts[0] == prompts[1]
    assert text_of(base, prepared, 1, learned=True) == "short<|end|>"
    assert np.diff(prepared.offsets).max() <= 40
    assert prepared.shortened[0] == prepared.shortened[1] > 0


def test_truncated_preferences_that_would_get_two_prompts_are_left_out_and_named(base: Path) -> None:
    # The longest text that is not learned is what a tool returned to the chosen answer alone.
    template = (
        "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>{% generation %}{{ m.content }}<|end|>"
        "{% endgeneration %}{% else %}<|user|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
    )
    chosen = [{"role": "assistant", "content": "look"}, {"role": "user", "content": "r" * 40}, *chat("", "yes")[1:]]
    row = {"messages": turns_of(chat("p" * 30)), "chosen": turns_of(chosen), "rejected": turns_of(chat("", "no")[1:])}
    preparer = make_preparer(base, "preference", chat_template=template, max_length=60, overlong="truncate")
    prepared = preparer.prepare(batch_of(pair_of(chat("a"), "b", "c"), row))
    assert prepared.example.tolist() == [0, 0]
    assert prepared.dropped[:, 0].tolist() == [11]


@pytest.mark.parametrize("spelled", ["", "<|end|>"])
@pytest.mark.parametrize("name", CUES)
def test_truncation_keeps_all_that_the_template_writes(base: Path, name: str, spelled: str) -> None:
    user = spelled + "a dog and a cat " * 12
    whole = make_preparer(base, chat_template=CUES[name], max_length=1000).prepare(chats_of(chat(user, "Once.")))
    before, behind = text_of(base, whole, 0).split(user.strip())
    assert "Once." in behind
    full = len(whole.input_ids)
    for max_length in (*range(full - 30, full, 6), full - 1):
        preparer = make_preparer(base, chat_template=CUES[name], max_length=max_length, overlong="truncate")
        prepared = preparer.prepare(chats_of(chat(user, "Once.")))
        text = text_of(base, prepared, 0)
        assert text.startswith(before + user[:20])
        assert text.endswith(behind)
        assert len(prepared.input_ids) == max_length
        assert text_of(base, prepared, 0, learned=True) == text_of(base, whole, 0, learned=True)


def test_a_row_of_which_truncation_would_take_a_whole_message_is_left_out_and_named(base: Path) -> None:
    batch = chats_of(chat("u" * 9, "v" * 20))
    # Three tokens of control, the answer and its end.
    least = 3 + 20 + 1
    kept = make_preparer(base, max_length=least + 1, overlong="truncate").prepare(batch)
    assert text_of(base, kept, 0) == "<|user|>u<|end|><|assistant|>" + "v" * 20 + "<|end|>"
    for max_length in (least, least - 1):
        gone = make_preparer(base, max_length=max_length, overlong="truncate").prepare(batch)
        assert gone.dropped.tolist() == [[10, least + 9]]


def test_a_content_that_the_template_changes_is_not_cut(base: Path) -> None:
    asking = "{% for m in messages %}<|{{ m.role }}|>{% if m.content[0] == 'k' %}hint {% endif %}"
    template = asking + "{% generation %}{{ m.content }}{% endgeneration %}<|end|>{% endfor %}"
    template = template.replace("{% generation %}", "{% if m.role == 'assistant' %}{% generation %}")
    template = template.replace("{% endgeneration %}", "{% endgeneration %}{% else %}{{ m.content }}{% endif %}")
    preparer = make_preparer(base, chat_template=template, max_length=30, overlong="truncate")
    prepared = preparer.prepare(chats_of(chat("k" * 30, "yes"), chat("n" * 30, "yes")))
    assert prepared.dropped[:, 0].tolist() == [10]
    assert text_of(base, prepared, 0).endswith("n<|end|><|assistant|>yes<|end|>")


def test_split_texts_have_every_token_once(base: Path) -> None:
    batch = batch_of({"text": "x"}, {"text": "abc" * 50})
    whole = make_preparer(base, "text", max_length=1000).prepare(batch)
    prepared = make_preparer(base, "text", max_length=20, overlong="split").prepare(batch)
    assert prepared.input_ids.tolist() == whole.input_ids.tolist()
    assert prepared.example.tolist() == [0] + [1] * (len(prepared.offsets) - 2)
    assert np.diff(prepared.offsets).max() <= 20
    assert not prepared.learned[prepared.offsets[:-1]].any()
    assert prepared.controls.tolist() == [1] + [0] * (len(prepared.offsets) - 3) + [1]
