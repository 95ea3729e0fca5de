"""``shared``: columns that many items have in common are in a separate file, and are not part of the question."""

from pathlib import Path

import pytest
import yaml

from ft_assets.workers.suites.suites import add_suite, asked_items, scored_items
from ft_resources.errors import BadRecipe
from ft_resources.store import Store
from tests.choice_suite import as_lines, choice_task
from tests.workers.suites.conftest import folder_of

ITEMS = [
    {"subject": "cats", "question": "Do cats purr?", "choices": ["yes", "no"], "answer": 0},
    {"subject": "dogs", "question": "Do dogs purr?", "choices": ["yes", "no"], "answer": 1},
]
SHOTS = [{"subject": "dogs", "shots": "Dogs bark."}, {"subject": "cats", "shots": "Cats meow."}]
SHARED = {"shared": {"file": "shots.jsonl", "by": "subject"}, "doc_to_text": "{{shots}} {{question}}"}


def write(folder: Path, items: object = ITEMS, shots: object = SHOTS, **task: object) -> Path:
    folder.mkdir()
    (folder / "items.jsonl").write_text(as_lines(items))
    (folder / "shots.jsonl").write_text(as_lines(shots))
    (folder / "task.yaml").write_text(yaml.safe_dump(choice_task("pets", **{**SHARED, **task})))
    return folder


def test_items_are_checked_with_their_shared_columns_and_ask_without_them(store: Store, tmp_path: Path) -> None:
    done = add_suite(store, write(tmp_path / "pets"), "pets.v1", "ann")
    folder = folder_of(store, done.ref, tmp_path / "scratch")
    assert [item.questions for item in asked_items(folder)] == [("Do cats purr?",), ("Do dogs purr?",)]
    assert "Cats meow." not in [text for item in scored_items(folder) for text in item]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"shots": SHOTS[:1]}, "items.jsonl, line 1: shots.jsonl has no row with this item's subject"),
        ({"shots": [*SHOTS, SHOTS[0]]}, "shots.jsonl, line 3: an earlier row has this subject"),
        ({"shots": [{"shots": "Cats meow."}]}, "shots.jsonl, line 1: there is no column 'subject'"),
        ({"items": [{**ITEMS[0], "subject": None}]}, "shots.jsonl has no row with this item's subject"),
        ({"shared": {"file": "other.jsonl", "by": "subject"}}, "shared.file: 'other.jsonl' is not a JSON lines file"),
        ({"shared": {"file": "shots.jsonl", "by": "topic"}}, "there is no column 'topic'"),
        ({"dataset_path": "csv"}, "shared: belongs to dataset_path json"),
        ({"bias": True}, "bias: belongs to multiple_choice with reported_by"),
        ({"bias": True, "reported_by": "subject"}, "line 1: bias: this item has no lists sided and biased"),
        ({"reported_by": "topic"}, "items.jsonl, line 1: reported_by: 'topic' is missing from an item"),
    ],
)
def test_a_file_that_does_not_fit_the_items_is_refused(
    store: Store, tmp_path: Path, changes: dict[str, object], expected: str
) -> None:
    with pytest.raises(BadRecipe) as caught:
        add_suite(store, write(tmp_path / "pets", **changes), "pets.v1", "ann")
    assert expected in str(caught.value)
