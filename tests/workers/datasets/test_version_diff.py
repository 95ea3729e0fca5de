"""What changed between two curated versions."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.workers.datasets.columns import with_weight
from ft_assets.workers.datasets.version_diff import diff_versions
from ft_assets.workers.datasets.writing import COLUMNS

NOTHING = {"tool_calls": "", "tool_call_id": "", "name": ""}


def row(question: str, answer: str) -> dict[str, Any]:
    turns = [("user", question), ("assistant", answer)]
    return {
        "id": hashlib.sha256(f"{question}|{answer}".encode()).hexdigest(),
        "messages": [{"role": role, "content": text, **NOTHING} for role, text in turns],
        **{"chosen": [], "rejected": [], "text": "", "tools": "", "group": "", "kind": "", "file": "a", "page": 0},
        "row": 1,
    }


def version(folder: Path, *, weighed: bool = False, **sides: list[dict[str, Any]]) -> dict[str, Path]:
    folder.mkdir()
    files = {side: folder / f"{side}.parquet" for side in ("train", "validation", "holdout")}
    for side, path in files.items():
        pq.write_table(pa.Table.from_pylist(sides.get(side, []), schema=with_weight(COLUMNS, weighed=weighed)), path)
    return files


def test_rows_are_added_removed_changed_and_moved(tmp_path: Path) -> None:
    kept, moved, gone = row("kept?", "yes"), row("moved?", "yes"), row("gone?", "yes")
    older = version(tmp_path / "a", train=[kept, moved, row("what?", "this")], holdout=[gone])
    newer = version(
        tmp_path / "b", train=[kept, row("what?", "that")], validation=[moved], holdout=[row("new?", "yes")]
    )
    found = diff_versions(older, newer)
    assert found.rows == ({"train": 3, "holdout": 1}, {"train": 2, "validation": 1, "holdout": 1})
    assert (found.same, found.changed) == (2, 1)
    assert (found.added, found.removed) == ({"holdout": 1}, {"holdout": 1})
    assert found.moved == {"train": {"validation": 1}}


def test_a_version_does_not_differ_from_itself(tmp_path: Path) -> None:
    files = version(tmp_path / "a", train=[row("a?", "b"), row("c?", "d")])
    found = diff_versions(files, files)
    assert (found.same, found.changed, found.added, found.removed, found.moved) == (2, 0, {}, {}, {})


def test_rows_with_another_weight_are_told(tmp_path: Path) -> None:
    def weighed(name: str, *weights: float) -> dict[str, Path]:
        rows = [row(f"{number}?", "yes") | {"weight": weight} for number, weight in enumerate(weights)]
        return version(tmp_path / name, train=rows, weighed=True)

    plain = version(tmp_path / "plain", train=[row("0?", "yes"), row("1?", "yes")])
    older, newer = weighed("a", 1.0, 2.0), weighed("b", 1.0, 0.5)
    assert diff_versions(older, newer).reweighed == 1
    assert diff_versions(plain, older).reweighed == 1
    assert diff_versions(older, older).reweighed == 0
