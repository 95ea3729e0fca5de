"""Folders of suites made of real benchmarks as their authors publish them: those of the catalogue, and two more with
the task files of ``benchmarks/``."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ft_assets.workers.suites.catalogue.catalogue import read_catalogue
from ft_assets.workers.suites.catalogue.install import Files, write_suite

TASKS = Path(__file__).parent / "benchmarks"
NAMES = ("arc_challenge", "gsm8k", "hellaswag", "humaneval", "ifeval", "mmlu", "truthfulqa_mc1", "truthfulqa_mc2")
# Of the published items these are the examples: the files have one split, and examples may not be scored.
_SHOTS = {"arc_challenge": 25, "hellaswag": 10}


def make_suite(name: str, data: Path, folder: Path, *, longest: int | None = None) -> Path:
    """Fill ``folder`` with benchmark ``name`` of the data folder ``data``, complete.

    ``longest``: most tokens of an answer, where the benchmark's own number is too large for a tiny model.
    """
    if name in _SHOTS:
        folder.mkdir(parents=True)
        with (data / "eval_compact" / f"{name}.jsonl").open(encoding="utf-8") as file:
            rows = [{**line["doc"], "id": str(line["id"])} for line in map(json.loads, file)]
        _write(folder / "shots.jsonl", rows[: _SHOTS[name]])
        _write(folder / "items.jsonl", rows[_SHOTS[name] :])
        shutil.copy(TASKS / f"{name}.yaml", folder)
        return folder
    catalogue = read_catalogue()
    with TemporaryDirectory() as scratch:
        files = Files(catalogue=catalogue, scratch=Path(scratch), offline=data)
        write_suite(files, f"{name.replace('_', '-')}.v1", folder)
    if longest is not None:
        task = json.loads((folder / "task.yaml").read_text())
        if "generation_kwargs" in task:
            task["generation_kwargs"]["max_gen_toks"] = longest
        else:
            task["max_new_tokens"] = longest
        (folder / "task.yaml").write_text(json.dumps(task))
    return folder


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
