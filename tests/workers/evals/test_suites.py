import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets.workers.suites.registered import get_suite, list_suites
from ft_assets.workers.suites.suite_rows import read_rows
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import BadRecipe, UserError
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.choice_suite import choice_task

TASK = choice_task("parity")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "items.jsonl").write_text('{"question": "1 is", "choices": ["odd", "even"], "answer": 0}\n' * 3)
    (folder / "parity.yaml").write_text(yaml.safe_dump(TASK))
    return folder


def objects(store: Store) -> list[str]:
    assert store.root is not None
    return sorted(str(path) for path in store.root.rglob("*") if path.is_file())


def refused(store: Store, folder: Path, key: str = "parity.v1") -> str:
    before = objects(store)
    with pytest.raises(BadRecipe) as caught:
        add_suite(store, folder, key, "ann")
    assert objects(store) == before
    assert caught.value.where
    assert caught.value.remedy
    return str(caught.value)


def test_a_suite_is_stored_with_its_task_under_one_name(store: Store, folder: Path) -> None:
    done = add_suite(store, folder, "parity.v1", "ann")
    assert done.created
    assert done.items == 3
    assert get_suite(store, "parity.v1") == done.ref
    artifact = Artifacts(store).get(Address.parse(done.ref.address))
    assert set(artifact.manifest.files) == {"task.yaml", "items.jsonl"}
    assert artifact.facts == {"items": 3, "kind": "multiple_choice"}
    assert artifact.digest == done.ref.digest
    assert artifact.read("task.yaml") == (folder / "parity.yaml").read_bytes()
    assert list_suites(store) == ["parity.v1"]


def test_registering_the_same_again_changes_nothing(store: Store, folder: Path) -> None:
    first = add_suite(store, folder, "parity.v1", "ann")
    before = objects(store)
    again = add_suite(store, folder, "parity.v1", "bob")
    assert not again.created
    assert again.ref == first.ref
    assert objects(store) == before


def test_a_key_reused_with_other_content_is_refused(store: Store, folder: Path) -> None:
    add_suite(store, folder, "parity.v1", "ann")
    (folder / "items.jsonl").write_text('{"question": "2 is", "choices": ["odd", "even"], "answer": 1}\n')
    text = refused(store, folder)
    assert "already registered with other content" in text
    assert "use key parity.v2" in text


def test_an_unknown_suite_comes_with_the_nearest_known_one(store: Store, folder: Path) -> None:
    add_suite(store, folder, "parity.v1", "ann")
    with pytest.raises(UserError, match=r"did you mean 'parity\.v1'\?"):
        get_suite(store, "party.v1")


def test_a_malformed_key_is_refused(store: Store, folder: Path) -> None:
    before = objects(store)
    with pytest.raises(UserError, match="suite key"):
        add_suite(store, folder, "Parity", "ann")
    assert objects(store) == before


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"include": "other.yaml"}, "include: unknown key"),
        ({"process_docs": "utils.f"}, "process_docs: unknown key"),
        ({"dataset_path": "squad"}, "dataset_path: should be 'json', 'csv' or 'parquet'"),
        ({"dataset_path": "EleutherAI/arc"}, "its revision is not a commit"),
        (
            {"output_type": "generate_until", "metric_list": [{"metric": "exact_match"}]},
            "generation_kwargs: generate_until needs one",
        ),
        ({"doc_to_txt": "x"}, "doc_to_txt: unknown key; did you mean 'doc_to_text'?"),
        ({"doc_to_text": None}, "doc_to_text"),
        ({"metric_list": [{"metric": "someone/their_metric"}]}, "metric_list[0].metric: should be 'acc', 'acc_norm'"),
        ({"dataset_kwargs": {"data_files": {"test": "../x.jsonl"}}}, "'../x.jsonl' is not a JSON lines file"),
        ({"dataset_kwargs": {"data_files": {"test": "https://a/b.jsonl"}}}, "is not a JSON lines file of this folder"),
        ({"dataset_kwargs": {"data_files": {"test": "none.jsonl"}}}, "'none.jsonl' is not a JSON lines file"),
        ({"dataset_kwargs": {"data_files": {"train": "items.jsonl"}}}, "no file for the scored split 'test'"),
        (
            {"dataset_kwargs": {"data_files": "items.jsonl", "trust_remote_code": True}},
            "trust_remote_code: unknown key",
        ),
    ],
)
def test_a_task_that_fetches_runs_code_or_misspells_is_refused(
    store: Store, folder: Path, changes: dict[str, object], expected: str
) -> None:
    task = {name: value for name, value in (TASK | changes).items() if value is not None}
    (folder / "parity.yaml").write_text(yaml.safe_dump(task))
    assert expected in refused(store, folder)


ITEM: dict[str, Any] = {"question": "1 is", "choices": ["odd", "even"], "answer": 0}
NO_ANSWER = "line 2: the right answer is none of this item's 2 choices"


@pytest.mark.parametrize(
    ("task", "item", "expected"),
    [
        ({}, {"answer": -1}, NO_ANSWER),
        ({}, {"answer": 2}, NO_ANSWER),
        ({}, {"answer": None}, NO_ANSWER),
        ({}, {"answer": "1"}, NO_ANSWER),
        ({}, {"answer": "prime"}, NO_ANSWER),
        ({}, {"answer": []}, NO_ANSWER),
        ({}, {"answer": [0, 5]}, NO_ANSWER),
        ({"doc_to_target": "{{answer}}"}, {"answer": 9}, NO_ANSWER),
        ({"doc_to_target": "anser"}, {}, "line 1: the right answer is none of"),
        ({}, {"choices": ["odd"]}, "line 2: this item has no list of at least two choices"),
        ({}, {"choices": ["odd", ""]}, "line 2: this item has no list of at least two choices"),
        ({}, {"choices": "odd, even"}, "line 2: this item has no list of at least two choices"),
        ({"doc_to_choice": "choises"}, {}, "line 1: the task's settings do not fit this item"),
        ({"doc_to_text": "{{quesion}}"}, {}, "'quesion' is undefined"),
        ({"doc_to_text": "quesion"}, {}, "there is no column 'quesion'; did you mean 'question'?"),
        ({"doc_to_text": "{{question"}, {}, "TemplateSyntaxError"),
        ({"doc_to_choice": "{{ ''.__class__ }}"}, {}, "SecurityError"),
    ],
)
def test_items_that_lm_eval_would_score_as_wrong_for_every_model_are_refused(
    store: Store, folder: Path, task: dict[str, Any], item: dict[str, Any], expected: str
) -> None:
    # An unlabelled test split (answer -1) gave 0 % for base and candidate alike, and passed the gate.
    (folder / "parity.yaml").write_text(yaml.safe_dump(TASK | task))
    (folder / "items.jsonl").write_text(json.dumps(ITEM) + "\n" + json.dumps(ITEM | item) + "\n")
    assert expected in refused(store, folder)


@pytest.mark.parametrize(
    ("task", "item"),
    [
        ({}, {"answer": "even"}),
        ({}, {"answer": [0, 1]}),
        ({"doc_to_target": "{{answer + 0}}"}, {}),
        ({"doc_to_target": "{{choices[answer]}}"}, {}),
        ({"doc_to_choice": "{{choices}}", "doc_to_text": ""}, {}),
        ({"doc_to_choice": ["odd", "even"], "doc_to_target": 1}, {}),
        ({"doc_to_text": "answer", "doc_to_target": "question"}, {}),
        ({"doc_to_text": "{{answer}}", "doc_to_target": "{{question}}"}, {}),
    ],
)
def test_every_way_of_naming_the_answer_that_lm_eval_has_is_understood(
    store: Store, folder: Path, task: dict[str, Any], item: dict[str, Any]
) -> None:
    (folder / "parity.yaml").write_text(yaml.safe_dump(TASK | task))
    (folder / "items.jsonl").write_text(json.dumps(ITEM | item) + "\n")
    assert add_suite(store, folder, "parity.v1", "ann").items == 1


def test_examples_never_come_from_the_scored_split_with_the_asked_item_among_them(store: Store, folder: Path) -> None:
    (folder / "parity.yaml").write_text(yaml.safe_dump(TASK | {"num_fewshot": 2}))
    assert "num_fewshot: the examples would be items of the scored split 'test'" in refused(store, folder)
    # Here lm-eval leaves the asked item out.
    (folder / "parity.yaml").write_text(yaml.safe_dump(TASK | {"num_fewshot": 2, "fewshot_split": "test"}))
    assert add_suite(store, folder, "parity.v1", "ann").created


@pytest.mark.parametrize("name", ["training_split", "validation_split", "fewshot_split"])
def test_a_split_without_a_file_is_refused(store: Store, folder: Path, name: str) -> None:
    (folder / "parity.yaml").write_text(yaml.safe_dump(TASK | {name: "dev"}))
    assert f"{name}: dataset_kwargs.data_files has no file for 'dev'" in refused(store, folder)


def test_functions_in_the_task_file_are_refused(store: Store, folder: Path) -> None:
    with (folder / "parity.yaml").open("a") as file:
        file.write("process_docs: !function utils.process\n")
    assert "!function runs code" in refused(store, folder)


def second_task(folder: Path) -> None:
    (folder / "other.yml").write_text("task: x")


def script(folder: Path) -> None:
    (folder / "utils.py").write_text("")


def pickled(folder: Path) -> None:
    (folder / "items.pkl").write_bytes(b"")


def linked(folder: Path) -> None:
    (folder / "more.jsonl").symlink_to(folder / "items.jsonl")


def nested(folder: Path) -> None:
    (folder / "data").mkdir()


def no_task(folder: Path) -> None:
    (folder / "parity.yaml").unlink()


def not_utf8(folder: Path) -> None:
    (folder / "parity.yaml").write_bytes(b"task: \xff")


def empty(folder: Path) -> None:
    (folder / "items.jsonl").write_text("\n")


def bad_line(folder: Path) -> None:
    (folder / "items.jsonl").write_text('{"question": "1"}\n[1]\n')


def same_id(folder: Path) -> None:
    (folder / "items.jsonl").write_text(json.dumps({"id": 7}) + "\n" + json.dumps({"id": "7"}) + "\n")


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [
        (second_task, "more than one YAML file"),
        (script, "utils.py may not be part of a suite"),
        (pickled, "items.pkl may not be part of a suite"),
        (linked, "more.jsonl is a link"),
        (nested, "data is a link or a folder"),
        (no_task, "no task file"),
        (not_utf8, "not UTF-8"),
        (empty, "the scored split has no items"),
        (bad_line, "line 2: this line is not a JSON object"),
        (same_id, "line 2: an earlier item has this id"),
    ],
)
def test_a_folder_that_is_no_suite_is_refused(
    store: Store, folder: Path, break_it: Callable[[Path], None], expected: str
) -> None:
    break_it(folder)
    assert expected in refused(store, folder)


def test_a_missing_folder_is_refused(store: Store, tmp_path: Path) -> None:
    assert "no such folder" in refused(store, tmp_path / "nowhere")


# Forty lists, each of the one before twice: a terabyte as text.
NESTED = "{% set ns = namespace(x=[0]) %}{% for _ in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # Python's own would not end before the sun does.
        ("{{ question | regex_replace('(a+)+$', '') }}", "may take for ever"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}x", "loops without end"),
        ("{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ question }}{{ m(1) }}", "(RecursionError"),
        (
            "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
            "loops without",
        ),
        ("{{ 'a' * 400000000 }}", "a text without end"),
        ("{{ range(99999) | map('string') | list | length }}" * 20, "loops without end"),
        (NESTED + "{{ ns.x }}", "loops without end"),
    ],
)
def test_a_task_whose_texts_may_take_for_ever_to_render_is_refused(
    store: Store, folder: Path, text: str, words: str
) -> None:
    (folder / "items.jsonl").write_text(
        json.dumps({"question": "a" * 40 + "b", "choices": ["x", "y"], "answer": 0}) + "\n"
    )
    (folder / "parity.yaml").write_text(yaml.safe_dump({**TASK, "doc_to_text": text}))
    assert words in refused(store, folder)


def test_loops_over_an_items_lists_and_a_plain_replacement_stay_possible(store: Store, folder: Path) -> None:
    text = (
        "{{ question | regex_replace('[0-9]', '') }}"
        "{% for each in choices %}{% for _ in [1, 2] %} {{ each }}{% endfor %}{% endfor %}"
    )
    (folder / "parity.yaml").write_text(yaml.safe_dump({**TASK, "doc_to_text": text}))
    assert add_suite(store, folder, "parity.v1", "ann").items == 3


@pytest.mark.statistics
@pytest.mark.parametrize(
    ("rows", "text", "words"), [(3_000_000, "q", "1,000,000 rows"), (3000, "q" * 500_000, "bytes")]
)
def test_a_parquet_file_that_says_one_text_again_and_again_is_refused_before_it_fills_the_memory(
    tmp_path: Path, rows: int, text: str, words: str
) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "bomb.parquet"
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), [text])
    pq.write_table(pa.table({"question": column}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 50_000
    with pytest.raises(BadRecipe, match=words):
        for _ in read_rows(path):
            pass


def test_a_csv_file_with_one_name_for_two_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("question,answer,answer\nq,0,1\n")
    with pytest.raises(BadRecipe, match="two columns have the same name"):
        next(read_rows(path))


def test_items_of_which_only_some_have_an_id_are_refused_when_they_are_registered(store: Store, folder: Path) -> None:
    item = {"question": "1 is", "choices": ["odd", "even"], "answer": 0}
    for rows in ([item, {**item, "id": "a"}], [{**item, "id": None}, {**item, "id": "a"}], [{**item, "id": 1}, item]):
        (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert "some items have an id and others none" in refused(store, folder)
