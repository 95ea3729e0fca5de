"""Golden prompts: answers that must be right, and answers that are only shown."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets.workers.suites.kinds import golden
from ft_assets.workers.suites.kinds.golden import GoldenItem, GoldenTask
from ft_assets.workers.suites.registered import get_suite, role_of
from ft_assets.workers.suites.suites import add_suite, scored_texts
from ft_resources.errors import BadRecipe
from ft_resources.store_marker import open_store

KEY = "ours.v1"


def write_golden(folder: Path, *items: dict[str, Any], **task: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prompts.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    (folder / "ours.yaml").write_text(yaml.safe_dump({"kind": "golden", "file": "prompts.jsonl", **task}))
    return folder


def item(expected: str, match: str, *, ignore_case: bool = False) -> GoldenItem:
    values = {"id": "1", "prompt": "?", "expected": (expected,), "match": match, "ignore_case": ignore_case}
    return GoldenItem(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expected", "match", "right", "wrong"),
    [
        ("Paris", "exact", " Paris\n", "Paris."),
        ("Paris", "contains", "It is Paris.", "It is paris."),
        (r"\bParis\b", "regex", "It is Paris.", "Parisian"),
        (r"^\d{4}-\d{2}-\d{2}$", "regex", "2026-01-31", "on 2026-01-31"),
        (r"a.c", "contains", "xa.cx", "abc"),
    ],
)
def test_an_answer_is_compared_as_its_item_says(expected: str, match: str, right: str, wrong: str) -> None:
    assert item(expected, match).is_met(right)
    assert not item(expected, match).is_met(wrong)
    assert not item(expected, match).is_met("")


@pytest.mark.parametrize("match", ["exact", "contains", "regex"])
def test_capitals_count_unless_the_task_says_otherwise(match: str) -> None:
    assert not item("paris", match).is_met("Paris")
    assert item("paris", match, ignore_case=True).is_met("Paris")


def test_several_expected_texts_are_alternatives(tmp_path: Path) -> None:
    folder = write_golden(tmp_path / "ours", {"prompt": "?", "expected": ["yes", "no"]})
    (found,) = golden.read(GoldenTask(kind="golden", file="x.jsonl"), {"x.jsonl": folder / "prompts.jsonl"}, "here")
    assert (found.is_met("no"), found.is_met("yes no")) == (True, False)


def test_prompts_with_and_without_right_answers_make_a_general_suite(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"), create=True)
    folder = write_golden(tmp_path / "ours", {"prompt": "Where?", "expected": "here"}, {"prompt": "Why?"})
    assert add_suite(store, folder, KEY, "ann").items == 2
    assert role_of(get_suite(store, KEY)) == "suite"
    (folder / "ours.yaml").rename(folder / "task.yaml")
    assert scored_texts(folder) == ["Where?", "Why?"]


def test_prompts_without_any_right_answer_are_only_shown(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"), create=True)
    add_suite(store, write_golden(tmp_path / "ours", {"prompt": "Why?"}), KEY, "ann")
    assert role_of(get_suite(store, KEY)) == "shown"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"expected": 3}, "expected is not a text"),
        ({"expected": []}, "expected is not a text"),
        ({"expected": " "}, "expected is not a text"),
        ({"expected": "(a+)+$", "match": "regex"}, "may take for ever"),
        ({"expected": "(", "match": "regex"}, "not a regular expression"),
        ({"match": "fuzzy"}, "there is no match 'fuzzy'"),
        ({"prompt": ""}, "prompt is empty"),
        ({"prompt": None}, "prompt is empty"),
    ],
)
def test_items_that_could_not_be_judged_are_refused_with_their_line(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    good = {"prompt": "Where?", "expected": "here"}
    folder = write_golden(tmp_path / "ours", good, {**good, **changes})
    with pytest.raises(BadRecipe) as caught:
        add_suite(open_store(str(tmp_path / "store"), create=True), folder, KEY, "ann")
    assert expected in str(caught.value)
    assert "line 2" in str(caught.value)


def test_a_table_of_prompts_may_leave_fields_empty(tmp_path: Path) -> None:
    folder = write_golden(tmp_path / "ours", file="prompts.csv")
    (folder / "prompts.jsonl").unlink()
    (folder / "prompts.csv").write_text("prompt,expected,match\nWhere?,here,\nWhy?,,\nWhen?,^now,regex\n")
    assert add_suite(open_store(str(tmp_path / "store"), create=True), folder, KEY, "ann").items == 3
