"""A suite of multiple-choice items, as people hand one in: a task of lm-eval and its items."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml


def choice_task(name: str, **changes: Any) -> dict[str, Any]:
    """The task ``name`` over ``items.jsonl``: a question, its choices, and the index of the right one as its answer."""
    return {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "items.jsonl"}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}",
        "doc_to_choice": "choices",
        "doc_to_target": "answer",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
        **changes,
    }


def as_lines(items: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


def write_choice_suite(folder: Path, name: str, items: Iterable[Mapping[str, Any]], **changes: Any) -> Path:
    """A folder with the task in ``<name>.yaml``, its items beside it."""
    folder.mkdir()
    (folder / "items.jsonl").write_text(as_lines(items))
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(choice_task(name, **changes)))
    return folder
