"""What a build tells and does where it is in doubt: skeletons that differ, and control tokens that rows spell."""

from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.packs.documents import chats
from ft_assets.workers.packs.format import Pack
from tests.workers.packs.conftest import Workbench, chat
from tests.workers.packs.documents.prepared import CALLS, batch_of, make_preparer, pair_of, turns_of
from tests.workers.packs.templates.templates import source


def _tokens(folder: Path) -> list[list[int]]:
    pack = Pack.open(folder, "train")
    return [pack.read([window]).input_ids.tolist() for window in range(len(pack))]


def test_one_wrong_skeleton_in_either_split_and_no_document_of_any_is_packed(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Wrong only where a content is long. The first, second, third and fifth use of a skeleton are looked at.
    train, validation = [chat("one", "two")] * 3 + [chat("a long question", "b")], [chat("another long one", "d")]
    expected = _tokens(workbench.build(workbench.dataset(train, validation)).folder)
    right = chats.Slot.fill
    filled: list[int] = []

    def wrong(slot: chats.Slot, contents: list[list[str]]) -> Any:
        filled.append(len(contents))
        return right(slot, [[text[:5] for text in each] for each in contents])

    monkeypatch.setattr(chats.Slot, "fill", wrong)
    assert _tokens(workbench.build(workbench.dataset(train, validation)).folder) == expected
    # Skeletons were in use for both splits until they were found out.
    assert sum(filled) > 0


def test_rows_that_spell_a_control_token_are_counted_and_named(workbench: Workbench) -> None:
    plain, spelling = chat("one", "two"), chat("three", "four <|end|>")
    facts = workbench.build(workbench.dataset([plain, spelling] * 15, [spelling])).facts
    assert (facts["spelled"], facts["spelled_rows"]) == (15, list(range(2, 31, 2)))
    assert (facts["validation"]["spelled"], facts["validation"]["spelled_rows"]) == (1, [31])
    assert workbench.build(workbench.dataset([plain])).facts["spelled_rows"] == []


@pytest.mark.parametrize("skeletons", [True, False])
def test_whatever_the_form_spelled_control_tokens_are_seen(base_folder: Path, skeletons: bool) -> None:
    texts = make_preparer(base_folder, "text").prepare(
        batch_of({"text": "a"}, {"text": "b<|end|>"}, {"text": "<|en d|>"})
    )
    assert texts.spelled.tolist() == [11]
    pairs = [pair_of(chat("a"), "b", "c"), pair_of(chat("a <|user|>"), "b", "c"), pair_of(chat("a"), "b", "c <|pad|>")]
    preferences = make_preparer(base_folder, "preference", skeletons=skeletons).prepare(batch_of(*pairs))
    assert preferences.spelled.tolist() == [11, 12]
    called = turns_of(chat("look it up", "", "x", "done"))
    called[1]["tool_calls"] = CALLS.replace("fox", "<|end|>")
    called[2] |= {"role": "tool", "name": "look"}
    batch = batch_of({"messages": turns_of(chat("a", "b"))}, {"messages": called})
    template = source("qwen2_5_training")
    chosen = make_preparer(base_folder, chat_template=template, max_length=4000, skeletons=skeletons).prepare(batch)
    assert chosen.spelled.tolist() == [11]
