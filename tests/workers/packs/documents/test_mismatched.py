"""Which answer a prompt gets for the estimate of KL."""

import pyarrow as pa

from ft_assets.workers.datasets.columns import TURN
from ft_assets.workers.packs.documents.examples import FIRST_PIECE
from ft_assets.workers.packs.documents.mismatched import with_mismatched

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
