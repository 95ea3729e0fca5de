"""The evaluation benchmark compares what it says it compares."""

import pytest

from benchmarks import eval_engine
from benchmarks.eval_engine import Compared, Ran


def ran(correct: list[float], likelihoods: list[float], greedy: bool = False) -> Ran:
    task = {"acc": correct, "value": sum(correct) / len(correct), "answers": [(each, greedy) for each in likelihoods]}
    return Ran(wall_s=1.0, cpu_s=1.0, tasks={"task": task})


def test_scores_are_identical_only_where_every_item_and_every_greedy_mark_is() -> None:
    stock = ran([1.0, 0.0], [-1.0, -2.0, -3.0, -4.0])
    assert Compared(ours=ran([1.0, 0.0], [-1.0, -2.0, -3.0001, -4.0]), stock=stock).identical
    assert not Compared(ours=ran([0.0, 1.0], [-1.0, -2.0, -3.0, -4.0]), stock=stock).identical
    assert not Compared(ours=ran([1.0, 0.0], [-1.0, -2.0, -3.0, -4.0], greedy=True), stock=stock).identical


def test_the_largest_difference_of_a_likelihood_is_told() -> None:
    ours, stock = ran([1.0], [-1.0, -2.0]), ran([1.0], [-1.5, -2.0])
    assert Compared(ours=ours, stock=stock).difference == 0.5
    with pytest.raises(ValueError, match="longer"):
        _ = Compared(ours=ran([1.0], [-1.0]), stock=stock).difference


@pytest.mark.long
@pytest.mark.training
def test_both_commands_score_the_same_items_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FT_REAL_DATA", raising=False)
    compared = eval_engine._compare(512, 4)
    assert all(len(task["acc"]) == 4 and len(task["answers"]) == 16 for task in compared.stock.tasks.values())
    assert len(compared.stock.tasks) == 2
    assert compared.identical
    assert compared.difference < 1e-2
