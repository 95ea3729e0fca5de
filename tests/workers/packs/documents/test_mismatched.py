"""Which answer a prompt gets for the estimate of KL."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

from ft_assets.workers.datasets.columns import TURN
from ft_assets.workers.packs.documents.examples import FIRST_PIECE
from ft_assets.workers.packs.documents.mismatched import with_mismatched
from tests.workers.packs.conftest import chat
from tests.workers.packs.documents.prepared import batch_of, make_preparer, text_of, turns_of

NOTHING = {"tool_calls": "", "tool_call_id": "", "name": ""}


def batch(*answers: tuple[str, bool]) -> pa.RecordBatch:
    turns = [[{"role": "assistant", "content": answer, **NOTHING}] for answer, _ in answers]
    columns = {
        "chosen": [turn if liked else [] for turn, (_, liked) in zip(turns, answers, strict=True)],
        "rejected": [[] if liked else turn for turn, (_, liked) in zip(turns, answers, strict=True)],
    }
    return pa.RecordBatch.from_pydict({name: pa.array(each, pa.list_(TURN)) for name, each in columns.items()})


def said(found: pa.RecordBatch, name: str) -> list[str]:
    return [turn["content"] for turns in found.column(name).to_pylist() for turn in turns]


def test_each_prompt_gets_the_answer_of_the_row_before_and_the_first_that_of_the_last() -> None:
    found = with_mismatched(batch(("a", True), ("b", False), ("c", False), ("d", True)))
    assert said(found, "chosen") == ["a", "b", "c", "d"]
    assert said(found, "rejected") == ["d", "a", "b", "c"]
    assert found.column(FIRST_PIECE).to_pylist() == [0, 2, 2, 0]


def test_a_row_alone_gets_its_own_answer() -> None:
    found = with_mismatched(batch(("a", False)))
    assert (said(found, "chosen"), said(found, "rejected")) == (["a"], ["a"])


def test_a_slice_is_completed_of_its_own_rows_only() -> None:
    found = with_mismatched(batch(("a", True), ("b", False), ("c", True)).slice(1, 2))
    assert said(found, "rejected") == ["c", "b"]


@pytest.mark.parametrize("overlong", ["reject", "drop", "truncate"])
def test_a_short_answer_is_not_overlong_because_another_row_s_is(base: Path, overlong: Literal["reject"]) -> None:
    def row(prompt: str, answer: str) -> dict[str, Any]:
        own = turns_of([{"role": "assistant", "content": answer}])
        return {"messages": turns_of(chat(prompt)), "chosen": own, "rejected": []}

    batch = with_mismatched(batch_of(row("a", "b"), row("c", "d" * 25), row("e" * 15, "f"), row("g", "h")))
    preparer = make_preparer(base, "unpaired_preference", max_length=30, overlong=overlong)
    prepared = preparer.prepare(batch)
    assert prepared.dropped.tolist() == []
    assert prepared.example.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    learned = [text_of(base, prepared, number, learned=True).removesuffix("<|end|>") for number in range(8)]
    assert learned == ["b", "h", "d" * 25, "b", "f", "f", "h", "f"]
    assert not prepared.shortened.any()
    assert (prepared.controls == 4).all()
    assert np.diff(prepared.offsets).max() <= 30


def test_a_row_s_own_long_answer_is_overlong_and_its_length_is_that_of_its_own(base: Path) -> None:
    own = [turns_of([{"role": "assistant", "content": each * 40}]) for each in "ab"]
    rows = (
        {"messages": turns_of(chat("q" * n)), "chosen": one, "rejected": []} for n, one in zip((1, 9), own, strict=True)
    )
    prepared = make_preparer(base, "unpaired_preference", max_length=30, overlong="drop").prepare(
        with_mismatched(batch_of(*rows))
    )
    assert prepared.dropped.tolist() == [[10, 45], [11, 53]]
