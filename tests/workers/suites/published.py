"""Published items, drawn by a seed, as our suite and as the rows that lm-eval's own task reads."""

import csv
import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ft_resources.store_marker import open_store
from tests.workers.evals.real_suites import make_suite
from tests.workers.suites.hub_rows import STOCK, installed, rows_of, stock_rows

if TYPE_CHECKING:
    from ft_assets.workers.evals.model import LoadedModel

Row = dict[str, Any]
NAMES = ("mmlu", "truthfulqa", "gsm8k", *STOCK)


@dataclass(frozen=True, kw_only=True)
class Published:
    """``suite`` is our folder; ``task`` lm-eval's file below its ``tasks``, ``rows`` what it reads, by split."""

    suite: Path
    task: str
    metric: str
    rows: dict[str, list[Row]]
    more: dict[str, Any] = field(default_factory=dict)


def published(name: str, data: Path, folder: Path, seed: int, count: int) -> Published:
    """``count`` items of benchmark ``name``, in the new folder ``folder``; ``data`` is the folder of FT_REAL_DATA."""
    draw = random.Random(f"{name} {seed}")
    folder.mkdir(parents=True)
    if name == "mmlu":
        return _mmlu(data, folder / "suite", draw, count)
    if name == "truthfulqa":
        return _truthfulqa(data, folder / "suite", draw, count)
    if name == "gsm8k":
        return _gsm8k(data, folder / "suite", draw, count)
    rows = _hub_rows(name, data, draw, count) or rows_of(name, seed, count)
    task, metric = STOCK[name]
    suite = installed(open_store(str(folder / "store"), create=True), name, rows, folder)
    return Published(suite=suite, task=task, metric=metric, rows=stock_rows(name, rows))


def roomy_model(data: Path, folder: Path) -> "LoadedModel":
    """The real tiny model, with room for five examples; its positions are rotary, so it stays the same model."""
    from ft_assets.workers.evals.model import load_model

    shutil.copytree(data / "stories260K-hf", folder, ignore=shutil.ignore_patterns("greedy*"))
    for name, key in (("config.json", "max_position_embeddings"), ("tokenizer_config.json", "model_max_length")):
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**settings, key: 8192}))
    return load_model(folder)


def _hub_rows(name: str, data: Path, draw: random.Random, count: int) -> list[Row]:
    """Rows of the data set on the Hub as far as published files have its columns, none where they have not."""
    if name in ("lambada", "wikitext"):
        stories = json.loads((data / "tinystories_sample" / "tinystories_1000.json").read_text())
        if name == "lambada":
            return [{"text": " ".join(story.split()[:60])} for story in draw.sample(stories, count)]
        return [{"page": "\n\n".join(draw.sample(stories, 4))} for _ in range(count)]
    place = data / "eval_compact" / f"{name.replace('-', '_')}.jsonl"
    if not place.exists() or name in ("hellaswag", "boolq"):
        return []
    docs = [json.loads(line)["doc"] for line in place.read_text(encoding="utf-8").splitlines()]
    return [_arc(doc) if name.startswith("arc") else doc for doc in draw.sample(docs, count)]


def _arc(doc: Row) -> Row:
    letters = "ABCDE"[: len(doc["choices"])]
    question = doc["query"].removeprefix("Question: ").removesuffix("\nAnswer:")
    choices = {"text": doc["choices"], "label": list(letters)}
    return {"id": doc["id"], "question": question, "choices": choices, "answerKey": letters[doc["gold"]]}


def _mmlu(data: Path, folder: Path, draw: random.Random, count: int) -> Published:
    subject = draw.choice(sorted(path.name.removesuffix("_test.csv") for path in (data / "mmlu" / "test").iterdir()))

    def rows(side: str) -> list[Row]:
        return [
            {**row, "choices": [row[f"choice{n}"] for n in range(4)], "answer": int(row["answer"])}
            for row in _table(data / "mmlu" / side / f"{subject}_{side}.csv")
        ]

    test = rows("test")
    chosen = sorted(draw.sample(range(len(test)), min(count, len(test))))
    make_suite("mmlu", data, folder)
    numbers = {f"{subject}-{place + 1}" for place in chosen}
    _keep(
        folder / "items.jsonl", [line for line in _lines(folder / "items.jsonl") if json.loads(line)["id"] in numbers]
    )
    task = f"mmlu/default/mmlu_{subject}.yaml"
    split = {"dev": rows("dev"), "test": [test[place] for place in chosen]}
    return Published(suite=folder, task=task, metric="acc", rows=split, more={"num_fewshot": 5})


def _truthfulqa(data: Path, folder: Path, draw: random.Random, count: int) -> Published:
    found = draw.sample(_table(data / "truthfulqa" / "TruthfulQA.csv"), count)
    make_suite("truthfulqa_mc1", data, folder)
    with (folder / "TruthfulQA.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]))
        writer.writeheader()
        writer.writerows(found)

    def row(item: Row) -> Row:
        wrong = [text.strip() for text in item["Incorrect Answers"].split(";") if text.strip()]
        choices = [item["Best Answer"].strip(), *wrong]
        return {"question": item["Question"], "mc1_targets": {"choices": choices, "labels": [1] + [0] * len(wrong)}}

    rows = {"validation": [row(item) for item in found]}
    return Published(suite=folder, task="truthfulqa/truthfulqa_mc1.yaml", metric="acc", rows=rows)


def _gsm8k(data: Path, folder: Path, draw: random.Random, count: int) -> Published:
    lines = draw.sample(_lines(data / "gsm8k" / "test.jsonl"), count)
    make_suite("gsm8k", data, folder)
    _keep(folder / "test.jsonl", lines)
    train = [json.loads(line) for line in _lines(data / "gsm8k" / "train.jsonl")[:9]]
    rows = {"train": train, "test": [json.loads(line) for line in lines]}
    # lm-eval draws the examples anew for each item, unless it is told to take the first ones.
    more = {"fewshot_config": {"sampler": "first_n"}}
    return Published(suite=folder, task="gsm8k/gsm8k.yaml", metric="exact_match", rows=rows, more=more)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def _keep(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(lines), encoding="utf-8")


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))
