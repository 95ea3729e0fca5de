"""Rows of a holdout that a later version trains on, in the ways that versions differ, and copies of them in other
dresses that the same version trains on.

Rows are real where there are some (``dolly_6400`` under ``FT_REAL_DATA``), else generated. ``python -m
benchmarks.split_moves SEED …`` prints each case.
"""

import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.near_copies import DRESSES, mistyped
from benchmarks.table import Figure
from ft_assets.settings.dataset.policy import DatasetPolicy, DuplicateSettings, SplitSettings
from ft_assets.workers.datasets.held_out import FILE, HeldOut
from ft_assets.workers.datasets.intake.spool import spool
from ft_assets.workers.datasets.pipeline import Inputs, Means, curate_upload
from ft_assets.workers.datasets.similarity.folded import bare_texts

Row = dict[str, Any]
Version = tuple[Sequence[Row], DatasetPolicy]
_NEAR = 0.9
_MIN_CHARACTERS = 120
_TYPOS = 0.1
"""Letters mistyped in the worst copies of a holdout's rows."""


def figures(seeds: Sequence[int] = (1, 2)) -> list[Figure]:
    """``split_moves``: over all cases, and over rows and changes drawn by each seed."""
    found = moves(seeds)
    print("rows of a holdout that are trained on:", ", ".join(f"{name} {n}" for name, n in found.items()))
    total = sum(found.values())
    what = "rows of a holdout, or copies of them, that it or a later version trains on"
    return [Figure(key="split_moves", what=what, ours=total, peer=None, peer_is="", goal="0", met=total == 0)]


def moves(seeds: Sequence[int]) -> dict[str, int]:
    """By case how many rows are trained on that must not be, of all seeds."""
    found = dict.fromkeys([*_CASES, *COPIES], 0)
    for seed in seeds:
        draw = random.Random(seed)
        rows = _rows()
        draw.shuffle(rows)
        for name, versions in _CASES.items():
            found[name] += _moves(versions(rows, draw))
        for name in COPIES:
            found[name] += crossed(rows[:400], name, draw)[0]
    return found


def _groups(rows: Sequence[Row], draw: random.Random) -> Iterator[Version]:
    """Half of the rows are in two groups, and the upload is reversed."""
    policy = DatasetPolicy(split=SplitSettings(group_by="user"))
    mine = [{**row, "user": f"u{draw.randrange(60)}"} for row in rows[:200]]
    twice = [*mine, *({**row, "user": f"u{draw.randrange(60)}"} for row in mine[:100])]
    yield from ((twice, policy), (twice[::-1], policy))


def _kept(rows: Sequence[Row], draw: random.Random) -> Iterator[Version]:
    """Near copies stay, and the upload is reversed."""
    policy = DatasetPolicy(duplicates=DuplicateSettings(near="keep"))
    pairs = [row for each in rows[:200] for row in (each, _typed(each, draw))]
    yield from ((pairs, policy), (pairs[::-1], policy))


def _changed(rows: Sequence[Row], draw: random.Random) -> Iterator[Version]:
    """Of each near pair the other one comes first."""
    pairs = [(row, _typed(row, draw)) for row in rows[:100]]
    rest = list(rows[200:300])
    for step in (1, -1):
        yield [*(row for pair in pairs for row in pair[::step]), *rest], DatasetPolicy()


def _edited(rows: Sequence[Row], draw: random.Random) -> Iterator[Version]:
    """Every row gets a typo, under other seeds, shares and groups."""
    yield rows[:400], DatasetPolicy()
    for seed in range(1, 4):
        near = draw.choice(["remove", "keep", "off"])
        split = SplitSettings(seed=seed, holdout=draw.choice([0.05, 0.1, 0.2]), group_by="kind" if seed == 2 else None)
        policy = DatasetPolicy(split=split, duplicates=DuplicateSettings(near=near))  # type: ignore[arg-type]
        edited = [_typed({**row, "kind": str(draw.randrange(40))}, draw) for row in rows[:400]]
        yield draw.sample(edited, 350), policy


_CASES: dict[str, Callable[[Sequence[Row], random.Random], Iterator[Version]]] = {
    "equal rows in two groups": _groups,
    "near: keep": _kept,
    "another copy first": _changed,
    "typos and other policies": _edited,
}


COPIES: dict[str, Callable[[random.Random, str], str]] = {
    **DRESSES,
    "10 % mistyped": lambda draw, text: mistyped(draw, text, _TYPOS),
}


def crossed(rows: Sequence[Row], dress: str, draw: random.Random) -> tuple[int, int]:
    """``rows`` and a copy of each in a dress, in one version: (pairs of which one is held out and the other is on
    another side, pairs of which one is held out). The holdout is large."""
    change = COPIES[dress]
    copies = [{key: change(draw, text) for key, text in row.items()} for row in rows]
    with tempfile.TemporaryDirectory(prefix="ft-moves-") as name:
        policy = DatasetPolicy(split=SplitSettings(holdout=0.3, seed=draw.randrange(1000)))
        curated = _curate([*rows, *copies], policy, None, Path(name))
        sides = {
            side: {(number - 1) % len(rows) for number in pq.read_table(curated / f"{side}.parquet")["row"].to_pylist()}
            for side in ("train", "validation", "holdout")
        }
    return len(sides["holdout"] & (sides["train"] | sides["validation"])), len(sides["holdout"])


def _moves(versions: Iterator[Version]) -> int:
    moved, held = 0, dict[str, set[str]]()
    with tempfile.TemporaryDirectory(prefix="ft-moves-") as name:
        memory: Path | None = None
        for number, (rows, policy) in enumerate(versions):
            folder = Path(name) / str(number)
            curated = _curate(rows, policy, memory, folder)
            moved += sum(
                any(text == other or _alike(shingles, known) >= _NEAR for other, known in held.items())
                for text in _texts(curated / "train.parquet")
                for shingles in [_shingles(text)]
            )
            held.update({text: _shingles(text) for text in _texts(curated / "holdout.parquet")})
            memory = curated / FILE
    return moved


def _curate(rows: Sequence[Row], policy: DatasetPolicy, memory: Path | None, folder: Path) -> Path:
    output, scratch = folder / "out", folder / "scratch"
    for each in (output, scratch):
        each.mkdir(parents=True)
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    upload = spool(path, path.name, folder / "spools", role="upload", text=policy.text)
    curate_upload(Inputs(spools=[upload], policy=policy, held_out=HeldOut.open(memory)), output, Means(scratch=scratch))
    return output


def _rows() -> list[Row]:
    """Rows of a prompt and an answer, long enough that one letter more or less leaves near copies."""
    data = os.environ.get("FT_REAL_DATA")
    if not data:
        draw = random.Random(0)
        words = ["".join(draw.choices("abcdefghijklmnoprstuvw", k=draw.randint(2, 9))) for _ in range(3000)]
        return [
            {"prompt": " ".join(draw.choices(words, k=12)), "completion": " ".join(draw.choices(words, k=40))}
            for _ in range(600)
        ]
    rows = []
    for path in sorted((Path(data) / "dolly_6400").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if len(row["instruction"]) > 60 and len(row["text"]) > _MIN_CHARACTERS:
                rows.append({"prompt": row["instruction"], "completion": row["text"]})
    return rows


def _typed(row: Row, draw: random.Random) -> Row:
    """``row`` with a letter of its prompt and of its answer changed."""
    changed = dict(row)
    for name in ("prompt", "completion"):
        at = draw.randrange(len(row[name]))
        changed[name] = row[name][:at] + draw.choice("xqzj") + row[name][at + 1 :]
    return changed


def _texts(path: Path) -> list[str]:
    messages = pq.read_table(path, columns=["messages"])["messages"].to_pylist()
    return ["\n".join(turn["content"] for turn in turns) for turns in messages]


def _shingles(text: str) -> set[str]:
    """The 5-grams that near-duplicates are compared by."""
    text = bare_texts(pa.array([text], pa.large_string()))[0].as_py()
    return {text[at : at + 5] for at in range(len(text) - 4)}


def _alike(some: set[str], others: set[str]) -> float:
    return len(some & others) / len(some | others)


def main() -> None:
    for name, count in moves([int(each) for each in sys.argv[1:]] or [1]).items():
        print(f"{name:28s} {count:3d}")


if __name__ == "__main__":
    main()
