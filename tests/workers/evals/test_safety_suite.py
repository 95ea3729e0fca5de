"""Safety suites: registered like others, strictly read, and required where a recipe asks for safety."""

import json
from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.suites.registered import get_suite, role_of
from ft_assets.workers.suites.suites import add_suite, safety_prompts, scored_texts
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import BadRecipe
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.workers.evals.safety_world import BENIGN, HARMFUL, write_safety_suite


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_safety_suite(tmp_path / "care")


def test_a_safety_suite_is_stored_under_its_name_and_told_from_others_by_its_reference(
    store: Store, folder: Path
) -> None:
    done = add_suite(store, folder, "care.v1", "ann")
    assert (done.created, done.items) == (True, HARMFUL + BENIGN)
    assert not add_suite(store, folder, "care.v1", "bob").created
    assert role_of(get_suite(store, "care.v1")) == "safety"
    artifact = Artifacts(store).get(Address.parse(done.ref.address))
    assert set(artifact.manifest.files) == {"task.yaml", "harmful.csv", "benign.jsonl"}
    assert artifact.facts == {"items": 100, "kind": "safety"}
    stored = artifact.folder(folder.parent / "scratch")
    _, prompts = safety_prompts(stored)
    assert (prompts["harmful"][1].id, prompts["harmful"][1].text) == ("h1", "steal purse, number 1")
    assert (prompts["benign"][0].id, prompts["benign"][0].kind) == ("benign-1", "benign")
    # Training rows that give prompts away are looked for by these.
    assert len(scored_texts(stored)) == 100


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({"kind": "saftey"}, "there is no kind 'saftey'; did you mean 'safety'?"),
        ({"harmfull": {}}, "harmfull: unknown key; did you mean 'harmful'?"),
        ({"benign": None}, "benign"),
        ({"benign": {"file": "../benign.jsonl"}}, "'../benign.jsonl' is not a file of items in this folder"),
        ({"benign": {"file": "none.csv"}}, "'none.csv' is not a file of items in this folder"),
        ({"benign": {"file": "benign.jsonl", "prompt": "text"}}, "there is no column 'text'"),
        ({"benign": {"file": "benign.jsonl", "id": "number"}}, "there is no column 'number'"),
        ({"benign": {"file": "harmful.csv", "prompt": "goal"}}, "this prompt is already in"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"system_prompt": ""}, "system_prompt"),
    ],
)
def test_a_task_that_misspells_or_reaches_elsewhere_is_refused(
    store: Store, folder: Path, task: dict[str, Any], expected: str
) -> None:
    write_safety_suite(folder, **task)
    with pytest.raises(BadRecipe) as caught:
        add_suite(store, folder, "care.v1", "ann")
    assert expected in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("harmful.csv", b"id,goal\n1,x\n2", "more or fewer fields"),
        ("harmful.csv", b'id,goal\n1,"x\n', "this is not CSV"),
        ("harmful.csv", b"id,goal\n1,\xff\n", "this is not CSV"),
        ("harmful.csv", b"id,goal\n", "there are no items"),
        ("harmful.csv", b"id,goal\n1,x\n1,y\n", "no unique id"),
        ("harmful.csv", b"id,goal\n1,x\n2,x\n", "this prompt is already in"),
        ("benign.jsonl", b"[]\n", "not a JSON object"),
        ("benign.jsonl", b'{"prompt": " "}\n', "empty or not a text"),
        ("benign.jsonl", b'{"prompt": 3}\n', "empty or not a text"),
        ("benign.jsonl", b'{"prompt": "\\ud800"}\n', "surrogate"),
        ("benign.jsonl", json.dumps({"prompt": "x" * 40_000}).encode(), "longer than"),
    ],
)
def test_prompts_that_cannot_be_asked_are_refused_with_their_place(
    store: Store, folder: Path, name: str, content: bytes, expected: str
) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(BadRecipe) as caught:
        add_suite(store, folder, "care.v1", "ann")
    assert expected in str(caught.value)
