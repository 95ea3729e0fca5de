"""The book-cloze suite: well-formed items whose endings alone give nothing away."""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

import ft_assets.demo as demo

FOLDER = Path(demo.__file__).parent / "suites/book_cloze"


@pytest.fixture(scope="module")
def items() -> list[dict]:
    return [json.loads(line) for line in (FOLDER / "items.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_suite_is_small_and_has_a_thousand_items(items: list[dict]) -> None:
    assert len(items) == 1000
    assert (FOLDER / "items.jsonl").stat().st_size <= 400_000


def test_every_item_has_four_different_endings_and_a_valid_label(items: list[dict]) -> None:
    for item in items:
        assert set(item) == {"id", "context", "choices", "label"}
        assert len(set(item["choices"])) == 4
        assert item["label"] in range(4)
        assert item["context"].strip() == item["context"] != ""
    assert [item["id"] for item in items] == list(range(len(items)))


def test_labels_are_spread_so_that_no_letter_pays(items: list[dict]) -> None:
    assert max(Counter(item["label"] for item in items).values()) < 0.30 * len(items)


def test_length_gives_no_hint(items: list[dict]) -> None:
    shortest = sum(min(range(4), key=lambda i: len(item["choices"][i])) == item["label"] for item in items)
    longest = sum(max(range(4), key=lambda i: len(item["choices"][i])) == item["label"] for item in items)
    assert shortest < 0.30 * len(items)
    assert longest < 0.30 * len(items)


def test_every_wrong_ending_is_the_right_one_of_another_item(items: list[dict]) -> None:
    right = {item["choices"][item["label"]] for item in items}
    assert all(choice in right for item in items for choice in item["choices"])


def test_the_task_file_reads_the_items_beside_it() -> None:
    task = yaml.safe_load((FOLDER / "book_cloze.yaml").read_text())
    assert task["output_type"] == "multiple_choice"
    assert (FOLDER / task["dataset_kwargs"]["data_files"]["test"]).is_file()


def test_no_item_stands_in_the_text_that_training_replays(items: list[dict]) -> None:
    replay = (Path(demo.__file__).parent / "replay.txt").read_text(encoding="utf-8")
    assert not any(item["choices"][item["label"]] in replay for item in items)
