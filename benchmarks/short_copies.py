"""Copies of held-out rows of fewer than 64 letters with a tenth of their letters mistyped, and other short rows.

Rows are real questions with their answers (``FT_REAL_DATA``), a tenth of them in a holdout file; beside them are made
ones in one wording each, which are as near to each other as mistyped copies. ``python -m benchmarks.short_copies SEED``
prints each set.
"""

import csv
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.near_copies import mistyped
from benchmarks.table import Figure, goal_figure
from ft_assets.settings.dataset.policy import DatasetPolicy, DuplicateSettings
from ft_assets.workers.datasets.intake.spool import Role, spool
from ft_assets.workers.datasets.pipeline import Inputs, Means, curate_upload
from ft_assets.workers.datasets.similarity.mistyped_words import are_short

Asked = tuple[str, str]
_TYPOS, _FEWEST = 0.1, 100
_CHOICES = ("csqa", "arc_easy", "openbookqa", "boolq")
# fmt: off
_WORDS = (
    "cat", "bat", "hat", "house", "mouse", "blouse", "cold", "gold", "bold", "run", "fun", "gun", "light", "night",
    "sight", "bread", "tread", "table", "cable", "fable", "river", "liver", "power", "tower", "lower", "train", "brain",
    "drain", "horse", "nurse", "purse",
)
# fmt: on


def figures(seeds: Sequence[int] = (1, 2)) -> list[Figure]:
    """Of the worst seed the share of copies that are found, and how many of 10,000 other rows are left out."""
    if "FT_REAL_DATA" not in os.environ:
        print("FT_REAL_DATA is not set: mistyped copies of short rows are not measured.")
        return []
    measured = [[found for name, found in measure(seed).items() if not name.startswith("made")] for seed in seeds]
    recall = min(sum(each[0] for each in found) / sum(each[1] for each in found) for found in measured)
    lost = max(sum(each[2] for each in found) / sum(each[3] for each in found) for found in measured)
    return [
        goal_figure("short_mistyped_recall", "mistyped copies of short held-out rows left out, share", recall, 0.75),
        Figure(
            key="short_others_per_10k",
            what="… and other short rows left out, of 10,000",
            ours=1e4 * lost,
            peer=None,
            peer_is="",
            goal="<= 20",
            met=1e4 * lost <= 20,
        ),
    ]


def measure(seed: int) -> dict[str, tuple[int, int, int, int]]:
    """By set: copies left out, copies, other rows left out, other rows."""
    draw, found = random.Random(seed), {}
    for name, rows in _sets(Path(os.environ["FT_REAL_DATA"]), draw).items():
        short = are_short(pa.array([f"{asked}\n{said}" for asked, said in rows]))
        chosen = [row for row, is_short in zip(rows, short.tolist(), strict=True) if is_short]
        if len(chosen) >= _FEWEST:
            draw.shuffle(chosen)
            found[name] = _left_out(chosen[: len(chosen) // 10], chosen[len(chosen) // 10 :], draw)
    return found


def _left_out(held: Sequence[Asked], others: Sequence[Asked], draw: random.Random) -> tuple[int, int, int, int]:
    copies = [tuple(mistyped(draw, text, _TYPOS) or text for text in row) for row in held]
    policy = DatasetPolicy(duplicates=DuplicateSettings(near="off"))
    with tempfile.TemporaryDirectory(prefix="ft-short-") as name:
        folder, spools = Path(name), []
        files: list[tuple[Role, Sequence[tuple[str, ...]]]] = [("upload", [*others, *copies]), ("holdout", held)]
        for role, rows in files:
            path = folder / f"{role}.jsonl"
            lines = [json.dumps(dict(zip(("prompt", "completion"), row, strict=True))) for row in rows]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            spools.append(spool(path, path.name, folder / "spools", role=role, text=policy.text))
        for each in ("out", "scratch"):
            (folder / each).mkdir()
        report, _ = curate_upload(
            Inputs(spools=spools, policy=policy), folder / "out", Means(scratch=folder / "scratch")
        )
        stays = np.zeros(len(others) + len(copies) + 1, np.bool_)
        for side in ("train", "validation"):
            stays[pq.read_table(folder / "out" / f"{side}.parquet", columns=["row"])["row"].to_numpy()] = True
    # The report lists the first 200 of what is left out, and the copies come last.
    listed = [note.place.row for finding in report.findings("own_holdout") for note in finding.notes]
    lost = sum(row <= len(others) for row in listed)
    return int((~stays[len(others) + 1 :]).sum()), len(copies), lost, len(others)


def _sets(data: Path, draw: random.Random) -> dict[str, list[Asked]]:
    found = {name: list(dict.fromkeys(_choices(data / "eval_compact" / f"{name}.jsonl"))) for name in _CHOICES}
    dolly = (data / "dolly_6400" / "google_flan-t5-small_decode_output.jsonl").read_text(encoding="utf-8")
    found["dolly"] = [(row["instruction"], row["text"]) for row in map(json.loads, dolly.splitlines())]
    with open(data / "truthfulqa" / "TruthfulQA.csv", encoding="utf-8-sig") as file:
        found["truthfulqa"] = [(row["Question"], row["Best Answer"]) for row in csv.DictReader(file)]
    pairs = [(one, other) for one in _WORDS for other in draw.sample(_WORDS, 4)]
    found["made rhymes"] = [(f"Does {one} rhyme with {other}?", draw.choice(["yes", "no"])) for one, other in pairs]
    found["made sums"] = [(f"What is {one} + {two}?", str(one + two)) for one in range(2, 30) for two in range(2, 30)]
    moods = [f"{said} the {word}" for said in ("I love", "I hate", "we saw", "she liked") for word in _WORDS]
    found["made moods"] = [(f"Classify the mood: {mood}", draw.choice(["good", "bad", "neither"])) for mood in moods]
    return {name: list(dict.fromkeys(rows)) for name, rows in found.items()}


def _choices(path: Path) -> Iterator[Asked]:
    for line in path.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)["doc"]
        asked = item["query"].split("Question:")[-1].split("Answer:")[0].strip()
        yield asked, item["choices"][item["gold"]]


if __name__ == "__main__":
    for name, (found, due, lost, rows) in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1).items():
        print(f"{name}: {found} of {due} copies left out, {lost} of {rows} other rows")
