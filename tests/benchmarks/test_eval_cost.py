"""What scoring suites takes, by arithmetic."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.eval_cost import DEFAULT_SUITES, SuiteLoad, suite_cost, total_seconds
from ft_assets.settings.gpus import CATALOGUE
from ft_assets.workers.model_size.model_size import read_architecture

QWEN_7B = {
    "model_type": "qwen2",
    "num_hidden_layers": 28,
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
H200 = CATALOGUE["H200"]
model = read_architecture(QWEN_7B)
assert model is not None
MODEL = model


def test_few_shot_examples_are_read_once_where_stock_reads_them_for_each_choice() -> None:
    load = SuiteLoad(name="x", items=100, prefix=1000, question=20, choices=4, choice=6)
    assert load.read == 1000 + 100 * (20 + 4 * 5)
    assert load.read_unshared == 100 * 4 * (1000 + 20 + 5)


def test_letters_are_read_off_one_place_by_both() -> None:
    load = SuiteLoad(name="x", items=10, prefixes=2, prefix=500, question=30, choices=4, choice=1)
    assert load.read == 2 * 500 + 10 * 30
    assert load.read_unshared == 10 * 530


def test_reading_takes_two_operations_for_each_weight_at_the_usual_share_of_the_peak() -> None:
    load = SuiteLoad(name="x", items=1, question=1000, choices=2, choice=1)
    cost = suite_cost(load, MODEL, H200)
    weights = 2 * MODEL.active * 1000
    assert weights < cost.flops < 1.05 * weights
    assert cost.seconds.expected == pytest.approx(cost.flops / (0.40 * 989e12))


@given(st.integers(1, 500), st.integers(1, 2000), st.integers(1, 200), st.integers(2, 8), st.integers(1, 50))
def test_sharing_never_reads_more(items: int, prefix: int, question: int, choices: int, choice: int) -> None:
    load = SuiteLoad(name="x", items=items, prefix=prefix, question=question, choices=choices, choice=choice)
    assert load.read <= load.read_unshared


def test_more_rows_at_once_write_sooner_until_memory_bounds_the_steps() -> None:
    load = SuiteLoad(name="x", items=1024, prefix=900, question=60, new=256)
    few, many = (suite_cost(load, MODEL, H200, rows=rows).seconds.expected for rows in (16, 64))
    assert few > 3 * many
    slow = replace(H200, bandwidth=H200.bandwidth / 50)
    assert suite_cost(load, MODEL, slow).seconds.expected > 5 * many


def test_the_default_suites_are_expected_within_a_quarter_of_an_hour_and_without_sharing_are_not() -> None:
    costs = [suite_cost(load, MODEL, H200) for load in DEFAULT_SUITES]
    assert total_seconds(costs).expected < 15 * 60 < total_seconds(costs, shared=False).expected
    assert total_seconds(costs).lower < total_seconds(costs).expected < total_seconds(costs).upper
