"""Folders of suites made of real benchmarks as their authors publish them, with the task files of ``benchmarks/``."""

import csv
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

TASKS = Path(__file__).parent / "benchmarks"
NAMES = ("arc_challenge", "gsm8k", "hellaswag", "humaneval", "ifeval", "mmlu", "truthfulqa_mc1", "truthfulqa_mc2")
_LETTERS = "ABCD"


def make_suite(name: str, data: Path, folder: Path) -> Path:
    """Fill ``folder`` with benchmark ``name`` of the data folder ``data``, complete."""
    folder.mkdir(parents=True)
    shutil.copy(TASKS / f"{name}.yaml", folder)
    _FILL[name](data, folder)
    return folder


def make_care_suite(data: Path, folder: Path) -> Path:
    """Fill ``folder`` with a safety suite: AdvBench's, HarmBench's and XSTest's harmful prompts, XSTest's safe ones."""

    def column(name: str, column: str, label: str = "") -> list[str]:
        # AdvBench's columns are named the wrong way round in the published file.
        return [row[column] for row in _table(data / name) if not label or row["label"] == label]

    harmful = [
        *column("advbench/harmful_behaviors.csv", "target"),
        *column("harmbench/harmbench_behaviors_text_all.csv", "Behavior"),
        *column("xstest/xstest_prompts.csv", "prompt", "unsafe"),
    ]
    benign = column("xstest/xstest_prompts.csv", "prompt", "safe")
    folder.mkdir(parents=True)
    for name, prompts in (("harmful", harmful), ("benign", benign)):
        # HarmBench asks some things twice, about other contexts.
        _write(folder / f"{name}.jsonl", ({"prompt": prompt} for prompt in dict.fromkeys(prompts)))
    shutil.copy(TASKS / "care.yaml", folder)
    return folder


def _copy(*names: str) -> Callable[[Path, Path], None]:
    def fill(data: Path, folder: Path) -> None:
        for name in names:
            shutil.copy(data / name, folder)

    return fill


def _choices(name: str, shots: int) -> Callable[[Path, Path], None]:
    """Questions whose first ``shots`` become examples: the file has one split, and examples may not be scored."""

    def fill(data: Path, folder: Path) -> None:
        with (data / "eval_compact" / f"{name}.jsonl").open(encoding="utf-8") as file:
            rows = [{**line["doc"], "id": str(line["id"])} for line in map(json.loads, file)]
        _write(folder / "shots.jsonl", rows[:shots])
        _write(folder / "items.jsonl", rows[shots:])

    return fill


def _mmlu(data: Path, folder: Path) -> None:
    rows = []
    for path in sorted((data / "mmlu" / "test").glob("*_test.csv")):
        subject = path.name.removesuffix("_test.csv")
        shots = "".join(_shot(row) for row in _table(data / "mmlu" / "dev" / f"{subject}_dev.csv"))
        for number, row in enumerate(_table(path), start=1):
            named = {"id": f"{subject}-{number}", "subject": subject.replace("_", " "), "shots": shots}
            rows.append({**row, **named, "answer": int(row["answer"])})
    _write(folder / "items.jsonl", rows)


def _shot(row: dict[str, str]) -> str:
    choices = "".join(f"{letter}. {row[f'choice{place}']}\n" for place, letter in enumerate(_LETTERS))
    return f"{row['question'].strip()}\n{choices}Answer: {_LETTERS[int(row['answer'])]}\n\n"


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


_FILL: dict[str, Callable[[Path, Path], None]] = {
    "arc_challenge": _choices("arc_challenge", 25),
    "hellaswag": _choices("hellaswag", 10),
    "mmlu": _mmlu,
    "gsm8k": _copy("gsm8k/train.jsonl", "gsm8k/test.jsonl"),
    "humaneval": _copy("humaneval/HumanEval.jsonl"),
    "ifeval": _copy("ifeval/input_data.jsonl"),
    "truthfulqa_mc1": _copy("truthfulqa/TruthfulQA.csv"),
    "truthfulqa_mc2": _copy("truthfulqa/TruthfulQA.csv"),
}
