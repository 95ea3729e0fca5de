"""The group ``offline``: no network, no data but what is installed, the same bytes everywhere, and right answers."""

import csv
import json
import operator
import os
import re
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ft_assets import api
from ft_assets.workers.suites.catalogue.made.draw import Draw
from ft_assets.workers.suites.catalogue.made.hazards import practice
from ft_assets.workers.suites.catalogue.made.lists import TASKS
from ft_assets.workers.suites.kinds import instructions
from ft_assets.workers.suites.suites import asked_items, read_task, suite_files
from ft_resources.canonical import digest
from ft_resources.store import Store
from tests.workers.suites.conftest import folder_of

DATA = Path(os.environ.get("FT_REAL_DATA", ""))
SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
WORDS = {"plus": "+", "minus": "-", "times": "*"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with the group, installed where no address answers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", lambda *_: pytest.fail("the network was asked"))
        store = Store(str(tmp_path_factory.mktemp("offline") / "store"))
        api.install_suites(["offline"], store=store, actor="ann")
    return store


def rows(folder: Path, name: str = "items.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_it_is_the_same_in_every_store(installed: Store) -> None:
    found = {each.key: each.digest for each in api.list_suites(store=installed)}
    assert list(found) == [
        "mmlu-examples.v1", "offline-arithmetic.v1", "offline-care.v1", "offline-instructions.v1", "offline-lists.v1",
    ]  # fmt: skip
    assert digest(found)[:16] == "ba57c5920632f56e"
    assert api.suites_left(["offline"], store=installed) == []


def test_sums_have_their_right_answers_and_tasks_of_the_paper(installed: Store, tmp_path: Path) -> None:
    items = rows(folder_of(installed, "offline-arithmetic.v1", tmp_path))
    assert len({item["context"] for item in items}) == 1000
    for item in items:
        asked = re.fullmatch(r"Question: What is (.+)\?\nAnswer:", item["context"])
        assert asked, item
        parts = asked[1].replace("(", "").replace(")", "").split()
        numbers, signs = [int(each) for each in parts[::2]], [SIGNS[WORDS.get(each, each)] for each in parts[1::2]]
        value = signs[0](numbers[0], signs[1](numbers[1], numbers[2]) if len(signs) == 2 else numbers[1])
        assert item["completion"] == f" {value}"
        assert max(numbers) < 10 ** int(item["task"][0])
    tasks = Counter(item["task"] for item in items)
    # Of figures there are fewer questions than are drawn, and none comes twice.
    assert len(tasks) == 10
    assert min(tasks.values()) >= 95


def right(task: str, asked: str) -> str:
    """The answer to a question about a list, derived from its wording."""
    before, _, listed = asked.replace("? ", ": ").partition(": ")
    words = listed.split(", ")
    if task == "replace":
        new, old = re.fullmatch(r"Write (\w+) for (\w+) in this list", before).groups()  # type: ignore[union-attr]
        words = [new if word == old else word for word in words]
    if task == "missing":
        known = {place: int(word) for place, word in enumerate(words) if word != "_"}
        (first, low), (second, high) = list(known.items())[:2]
        step = (high - low) // (second - first)
        return str(low + step * (words.index("_") - first))
    if task == "pick":
        return words[["first", "second", "third", "fourth"].index(before.split()[4])]
    if task in ("largest", "count"):
        return max(words) if task == "largest" else str(len(words))
    done = {"reverse": words[::-1], "initials": [word[0] for word in words]}
    # Numbers of two figures.
    done |= {"alphabet": sorted(words), "ascending": sorted(words)}
    return ", ".join(done.get(task, words))


def test_work_on_lists_has_its_right_answers_and_examples(installed: Store, tmp_path: Path) -> None:
    folder = folder_of(installed, "offline-lists.v1", tmp_path)
    items = rows(folder)
    assert [(item["answer"], item["task"]) for item in items] == [
        (right(item["task"], item["question"]), item["task"]) for item in items
    ]
    assert min(Counter(item["task"] for item in items).values()) >= 90
    shots = {row["task"]: row["shots"] for row in rows(folder, "shots.jsonl")}
    assert list(shots) == list(TASKS)
    for task, text in shots.items():
        examples = re.findall(r"(.+)\nAnswer: (.+)\n\n", text)
        assert len(examples) == 3
        assert all(answer == right(task, asked) for asked, answer in examples)
    # New data are screened against the questions, not against the examples.
    assert asked_items(folder)[0].questions == (items[0]["question"],)


def test_instructions_are_checkable_and_told_in_the_prompt(installed: Store, tmp_path: Path) -> None:
    folder = folder_of(installed, "offline-instructions.v1", tmp_path)
    task: Any = read_task(folder / "task.yaml")
    items = instructions.read(task, suite_files(folder), "here")
    assert len(items) == len({item.prompt for item in items}) == 1000
    given = rows(folder)
    for row in given:
        values = [value for settings in row["kwargs"] for name, value in settings.items() if name != "relation"]
        told = [str(each) for value in values for each in (value if isinstance(value, list) else [value])]
        assert all(each in row["prompt"] for each in told), row
        assert len(set(row["instruction_id_list"])) == len(row["instruction_id_list"])
    plain = "Here is an answer, as plain as it gets."
    followed = [all(instructions.follows(check, plain) for _, check in item.checks) for item in items]
    # An empty or vague answer does not pass.
    assert sum(followed) < 150


def test_one_answer_can_follow_all_instructions_of_a_prompt(installed: Store, tmp_path: Path) -> None:
    folder = folder_of(installed, "offline-instructions.v1", tmp_path)
    task: Any = read_task(folder / "task.yaml")
    items = instructions.read(task, suite_files(folder), "here")
    given = rows(folder)
    missed = [
        (item.id, name, row["prompt"])
        for item, row in zip(items, given, strict=True)
        for name, check in item.checks
        if not check(obedient(row))
    ]
    assert missed == []


def obedient(row: dict[str, Any]) -> str:
    """An answer that does all that the row's settings ask."""
    asked = dict(zip(row["instruction_id_list"], row["kwargs"], strict=True))
    words = asked.get("length_constraints:number_words", {"num_words": 30, "relation": "less than"})
    count = words["num_words"] if words["relation"] == "at least" else 12
    sentence = "It is all so."
    sentences = asked.get("length_constraints:number_sentences", {}).get("num_sentences", 1)
    lines = [sentence] * max(1 + count // 4, sentences)
    if used := asked.get("keywords:existence"):
        lines += [" ".join(used["keywords"]) + "."]
    if used := asked.get("keywords:frequency"):
        lines += [" ".join([used["keyword"]] * used["frequency"]) + "."]
    if "detectable_format:title" in asked:
        lines += ["<<a title>>"]
    if used := asked.get("detectable_format:number_bullet_lists"):
        lines += ["* so"] * used["num_bullets"]
    if used := asked.get("detectable_format:number_highlighted_sections"):
        lines += ["*so* "] * used["num_highlights"]
    if used := asked.get("detectable_content:number_placeholders"):
        lines += ["[name]"] * used["num_placeholders"]
    if used := asked.get("detectable_format:multiple_sections"):
        lines += [f"{used['section_spliter']} {number + 1}" for number in range(used["num_sections"])]
    if used := asked.get("startend:end_checker"):
        lines += [used["end_phrase"]]
    text = "\n".join(lines)
    if "change_case:english_lowercase" in asked:
        text = text.lower()
    if "change_case:english_capital" in asked:
        text = text.upper()
    return f'"{text}"' if "startend:quotation" in asked else text


def test_mmlus_examples_come_from_the_installed_package(installed: Store, tmp_path: Path) -> None:
    folder = folder_of(installed, "mmlu-examples.v1", tmp_path)
    items = rows(folder)
    assert len(items) == 279
    assert len({item["subject"] for item in items}) == 57
    assert Counter(item["answer"] for item in items).keys() == {0, 1, 2, 3}
    assert all(item[f"choice{place}"].strip() for item in items for place in range(4))
    task: Any = read_task(folder / "task.yaml")
    assert task.metadata["source"] == "package:lm-eval"


@pytest.mark.realdata
def test_they_are_mmlus_own_questions_with_their_answers(installed: Store, tmp_path: Path) -> None:
    def plain(text: str) -> str:
        return re.sub(r"\W+", "", text)

    real: dict[tuple[str, ...], int] = {}
    for path in (DATA / "mmlu" / "dev").iterdir():
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                real[plain(row["question"]), *(plain(row[f"choice{n}"]) for n in range(4))] = int(row["answer"])
    items = rows(folder_of(installed, "mmlu-examples.v1", tmp_path))
    found = [real.get((plain(item["question"]), *(plain(item[f"choice{n}"]) for n in range(4)))) for item in items]
    same = [item["answer"] == answer for item, answer in zip(items, found, strict=True)]
    # The copy in lm-eval has other words in a few, and corrects one answer.
    assert sum(same) >= 270, [item["id"] for item, each in zip(items, same, strict=True) if not each]
    other = [item["id"] for item, answer in zip(items, found, strict=True) if answer not in (None, item["answer"])]
    assert other == ["high_school_computer_science-5"]


@pytest.fixture(scope="module")
def requests(installed: Store, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = folder_of(installed, "offline-care.v1", tmp_path_factory.mktemp("care"))
    return [*rows(folder, "harmful.jsonl"), *rows(folder, "benign.jsonl")]


def test_harmful_requests_of_ten_classes_stand_beside_harmless_ones_in_each_of_five_languages(
    requests: list[dict[str, Any]],
) -> None:
    counts = Counter((each["hazard"], each["language"], each["kind"]) for each in requests)
    assert {language for _, language, _ in counts} == {"en", "de", "fr", "es", "it"}
    assert len({hazard for hazard, _, _ in counts}) == 10
    assert len(counts) == 100
    assert sum(count for (_, _, kind), count in counts.items() if kind == "harmful") >= 150
    # Wilson's interval of a perfect answer ends within the margin of production's safety gate.
    assert min(Counter(each["kind"] for each in requests).values()) >= 150


def test_no_phrasing_of_the_suite_is_practised_on_nor_in_any_the_first_pairs_of_verb_and_object(
    requests: list[dict[str, Any]],
) -> None:
    practised = list(practice(Draw("any"), 10))
    phrasings = [{each["prompt"].replace(each["act"], "") for each in of} for of in (requests, practised)]
    assert not phrasings[0] & phrasings[1]
    never = {each["act"] for each in requests} - {each["act"] for each in practised}
    # Of four pairs of each class and language one is the suite's alone, and of those with two safe verbs one of two.
    kinds = Counter(each["pair"] for each in requests if each["act"] in never)
    assert kinds == {"verbs-harmful": 50, "verbs-harmless": 50, "safe_verbs-harmful": 50}
