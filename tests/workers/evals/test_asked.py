"""A suite's question is told apart from its choices, its passage and its labels."""

from typing import Any

from ft_assets.workers.suites.asked import Asked, asked_by_task, asked_by_texts
from ft_assets.workers.suites.suite_task import SuiteTask
from ft_resources.strict import parse_strict


def task(text: str, choices: Any = "{{choices}}") -> SuiteTask:
    given = {
        "task": "t", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "a.jsonl"}},
        "output_type": "multiple_choice", "test_split": "test", "doc_to_text": text, "doc_to_choice": choices,
        "doc_to_target": "answer",
    }  # fmt: skip
    return parse_strict(SuiteTask, given, "task.yaml")


def asked(text: str, row: dict[str, Any], choices: Any = "{{choices}}") -> Asked:
    return asked_by_task(task(text, choices), [row])[0]


def test_a_column_and_a_template_name_the_question() -> None:
    row = {"id": "7", "subject": "zoology", "question": "What is a cat?", "choices": ["A pet", "A tree"], "answer": 0}
    for text in ("question", "Q: {{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nAnswer:"):
        found = asked(text, row)
        assert found.questions == ("What is a cat?",)
        assert found.choices == ("zoology", "A pet", "A tree")
    assert found.shown.startswith("What is a cat?\n")


def test_choices_in_columns_of_their_own_are_no_question() -> None:
    row = {"goal": "How do I dry a cat?", "sol1": "With a towel", "sol2": "With an oven", "answer": 0}
    for text, choices in (
        ("Goal: {{goal}}\nAnswer:", "{{[sol1, sol2]}}"),
        ("{{goal}}\nA. {{sol1}}\n(B) {{sol2}}", ["A", "B"]),
    ):
        found = asked(text, row, choices)
        assert (found.questions, found.choices) == (("How do I dry a cat?",), ("With a towel", "With an oven"))


def test_a_question_behind_a_passage_is_asked_with_it_and_alone() -> None:
    row = {"passage": "Cats are pets.", "question": "are cats pets", "answer": 1}
    found = asked("{{passage}}\nQuestion: {{question}}?\nAnswer:", row, ["no", "yes"])
    assert found.questions == ("Cats are pets.\nare cats pets", "are cats pets")


def test_labels_that_most_items_have_are_left_out() -> None:
    rows = [{"query": f"Question: What is item {n}?\nAnswer:", "choices": ["a"], "answer": 0} for n in range(3)]
    rows.append({"query": "Note: this is another one", "choices": ["a"], "answer": 0})
    found = asked_by_task(task("query"), rows)
    assert [each.questions[0] for each in found[::3]] == ["What is item 0?", "Note: this is another one"]


def test_items_without_columns_ask_their_first_text() -> None:
    (found,) = asked_by_texts([["def add(a, b):", "assert add(1, 2) == 3"]])
    assert (found.questions, found.choices) == (("def add(a, b):",), ("assert add(1, 2) == 3",))
