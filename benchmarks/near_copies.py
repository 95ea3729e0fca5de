"""Near-duplicates as curation finds them: copies in other dresses, and the same wording about other subjects.

Rows in dresses are real where there are some (``dolly_6400`` under ``FT_REAL_DATA``), else generated. Precision is of
generated rows, whose truth is known: questions about made-up diseases, answered in wording that all of them share, with
copies that have typing mistakes. Beside it stands what can be said of real rows: how many of the removed ones have the
same answer as the row that stays. ``python -m benchmarks.near_copies SEED`` prints all in detail.
"""

import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.contamination import confused, hidden, marked_up
from benchmarks.table import Figure, goal_figure
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.decisions import Decisions
from ft_assets.workers.datasets.duplicates import remove_duplicates
from ft_assets.workers.datasets.engine.chunks import run_chunk
from ft_assets.workers.datasets.engine.local import in_process
from ft_assets.workers.datasets.engine.prepare import PrepareSettings
from ft_assets.workers.datasets.intake.spool import spool
from ft_assets.workers.datasets.prepared import PreparedRows
from ft_assets.workers.datasets.reading import read_all
from ft_assets.workers.datasets.sides import keys_of
from ft_assets.workers.datasets.similarity.folded import bare_texts

Row = dict[str, str]
_COPIES = 150
_NEAR = 0.9
_MIN_CHARACTERS = 120
_MEMORY_BYTES = 500_000_000
_REAL = 12_000
_WIDE = str.maketrans({chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)} | {" ": "\u3000"})
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

DRESSES: dict[str, Callable[[random.Random, str], str]] = {
    "capitals": lambda _, text: text.upper(),
    "zero width": hidden,
    "no punctuation": lambda _, text: "".join(each for each in text if each.isalnum() or each.isspace()),
    "no-break spaces": lambda _, text: text.replace(" ", "\u00a0"),
    "markdown": marked_up,
    "full width": lambda _, text: text.translate(_WIDE),
    "confusables": confused,
}

_ASKED = {
    "treatments": "What are the treatments for {}?",
    "outlook": "What is the outlook for {}?",
    "genetic": "What are the genetic changes related to {}?",
}
# In the manner of public answers about rare diseases; every subject gets the same words.
_ANSWERS = {
    "treatments": (
        "These resources address the diagnosis or management of {}: the gene review of {}, the genetic testing "
        "registry, and the encyclopedia of medicine. They also offer information about the kinds of treatment in "
        "general, which include drug therapy, surgery and other approaches, genetic counselling, and palliative "
        "care. Patients who look for a specialist near them should ask their family doctor, or write to a society "
        "of patients, which keeps lists of hospitals and of studies that still take part in the search for better "
        "drugs."
    ),
    "outlook": (
        "The outlook for people with {} depends on the age at which the first signs appear, on how far they have "
        "spread, and on how well they are cared for. Most people lead an ordinary life if they see their doctor "
        "regularly, take the medicine that was prescribed, and rest enough. Some people find it helpful to talk to "
        "others who live with the same condition, for which there are groups in most of the larger towns. A doctor "
        "should be called whenever the signs become worse or new ones appear."
    ),
    "genetic": (
        "Researchers have found changes in several genes that are related to {}. Most cases are not inherited: they "
        "happen by chance in people without any history of the condition in their family. The changes disturb how "
        "the cell makes a protein that it needs for growth and repair, so that the tissue becomes weaker over the "
        "years. How exactly these changes lead to the signs of the condition is not known. It is likely that other "
        "genes and the surroundings in which people live have an influence, too, which is the subject of several "
        "studies."
    ),
}


def figures(seeds: Sequence[int] = (1, 2)) -> list[Figure]:
    """The least of the seeds' recalls and precisions."""
    dressed = [dressed_recall(seed) for seed in seeds]
    recall = min(sum(found.values()) / (_COPIES * len(found)) for found in dressed)
    told = [wordings(seed) for seed in seeds]
    precision = min(right / max(removed, 1) for right, removed, _, _ in told)
    kept = min(found / due for _, _, found, due in told)
    print(f"copies with typing mistakes among rows of one wording: {kept:.3f} found")
    what = "removed as near-duplicates rightly, of generated rows in shared wording"
    return [
        _figure("near_evader_recall", "near-duplicates in another dress found, share", recall, 0.95),
        _figure("near_precision_sampled", what, precision, 0.95),
        *_real_figures(seeds),
    ]


def _real_figures(seeds: Sequence[int]) -> list[Figure]:
    judged = [real_precision(seed) for seed in seeds] if "FT_REAL_DATA" in os.environ else []
    print("removed from real rows with the same answer, of all removed, by data set and seed:", judged)
    found: dict[str, float | None] = {"reading": None, "other": None}
    for name in found:
        shares = [right / gone for each in judged for right, gone in [each[name]] if gone]
        found[name] = min(shares, default=None)
    what = "  real rows removed that have the same answer as what stays:"
    return [
        goal_figure("near_precision_reading", f"{what} P3's questions on passages", found["reading"], None),
        goal_figure("near_precision_other", f"{what} Dolly, GPTeacher, GSM8K", found["other"], None),
    ]


def _figure(key: str, what: str, ours: float, goal: float) -> Figure:
    return Figure(key=key, what=what, ours=ours, peer=None, peer_is="", goal=f">= {goal}", met=ours >= goal)


def dressed_recall(seed: int) -> dict[str, int]:
    """How many of ``_COPIES`` rows in each dress are left out beside the plain ones."""
    draw = random.Random(seed)
    rows = _plain(draw)
    draw.shuffle(rows)
    found = {}
    for name, dress in DRESSES.items():
        copies = [{key: dress(draw, text) for key, text in row.items()} for row in rows[:_COPIES]]
        pairs = removed([*rows, *copies])
        found[name] = sum(pairs.get(len(rows) + number) == number for number in range(_COPIES))
    return found


def wordings(seed: int, subjects: int = 400) -> tuple[int, int, int, int]:
    """Rightly removed and removed rows; found and planted copies at 0.9 or more: each subject in each wording, 200 of
    them also mistyped."""
    draw = random.Random(seed)
    names = [subject(draw) for _ in range(subjects)]
    rows = [
        {"prompt": asked.format(name), "completion": _ANSWERS[kind].replace("{}", name)}
        for name in names
        for kind, asked in _ASKED.items()
    ]
    source = draw.sample(range(len(rows)), 200)
    copies = [{key: mistyped(draw, text, 1 / 200) for key, text in rows[at].items()} for at in source]
    pairs = removed([*rows, *copies])
    right = {at for at, kept in pairs.items() if at >= len(rows) and kept == source[at - len(rows)]}
    due = {len(rows) + at for at, copy in enumerate(copies) if alike(copy, rows[source[at]]) >= _NEAR}
    return len(right), len(pairs), len(right & due), len(due)


def real_precision(seed: int) -> dict[str, tuple[int, int]]:
    """Of ``reading`` (P3) and ``other`` real rows (rightly removed, removed), by a rule that needs no eye: a row is
    removed rightly if its answer has the same words as that of the row that stays, and its prompt the same numbers."""
    data, draw = Path(os.environ["FT_REAL_DATA"]), random.Random(seed)
    rows = [("reading", row["prompt"], row["completion"].removesuffix("<|endoftext|>")) for row in _lines(data, "p3*")]
    rows += [("other", row["instruction"], row["text"]) for row in _lines(data, "dolly*")]
    rows += [("other", row["question"], row["answer"]) for row in _lines(data, "gsm8k", "train.jsonl")]
    for path in sorted((data / "gpteacher").rglob("*.json")):
        texts = json.loads(path.read_text(encoding="utf-8"))
        rows += [("other", f"{row['instruction']}\n{row['input']}", row["response"]) for row in texts]
    rows = draw.sample([row for row in rows if row[1].strip() and row[2].strip()], _REAL)
    pairs = removed([{"prompt": prompt, "completion": answer} for _, prompt, answer in rows])
    told = {"reading": (0, 0), "other": (0, 0)}
    for at, kept in pairs.items():
        (kind, *mine), (_, *theirs) = rows[at], rows[kept]
        right = _words(mine[1]) == _words(theirs[1]) and _numbers(mine[0]) == _numbers(theirs[0])
        told[kind] = told[kind][0] + right, told[kind][1] + 1
    return told


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _numbers(text: str) -> list[str]:
    return sorted(re.findall(r"\d+", text))


def _lines(data: Path, folder: str, name: str = "*.jsonl") -> list[dict[str, Any]]:
    paths = sorted(path for each in data.glob(folder) for path in each.glob(name))
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


def subject(draw: random.Random) -> str:
    """A made-up name of a disease."""
    word = "".join(draw.choice("bcdfghklmnprstv") + draw.choice("aeiou") for _ in range(draw.randint(3, 5)))
    return word + draw.choice(["itis", "oma", " syndrome", " disease", "pathy", " deficiency"])


def mistyped(draw: random.Random, text: str, rate: float) -> str:
    """``text`` with about this share of its letters replaced, left out or doubled."""
    found = []
    for letter in text:
        typed = letter if draw.random() >= rate else draw.choice([draw.choice(_LETTERS), "", 2 * letter])
        found.append(typed)
    return "".join(found)


def removed(rows: Sequence[Row]) -> dict[int, int]:
    """By number the rows that curation leaves out as near-duplicates, with the row kept instead."""
    with tempfile.TemporaryDirectory(prefix="ft-near-") as name:
        folder = Path(name)
        path, policy = folder / "rows.jsonl", DatasetPolicy()
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        spools = [spool(path, path.name, folder / "spools", role="upload", text=policy.text)]
        settings = PrepareSettings(policy=policy.model_dump(mode="json"), index=None, suites=())
        reading = read_all(spools, settings, lambda tasks: in_process(run_chunk, tasks), folder)
        decisions = Decisions(PreparedRows(reading.chunks), policy.personal_data)
        keys = keys_of(decisions.rows)
        copies = remove_duplicates(decisions, policy, keys, folder / "joins", _MEMORY_BYTES, 1)
    gone = copies.near & ~copies.stay[copies.at]
    return dict(zip(copies.at[gone].tolist(), copies.kept[gone].tolist(), strict=True))


def alike(one: Row, other: Row) -> float:
    """Similarity as curation measures it."""
    bare = bare_texts(pa.array([f"{row['prompt']}\n{row['completion']}" for row in (one, other)])).to_pylist()
    here, there = ({text[at : at + 5] for at in range(len(text) - 4)} for text in bare)
    return len(here & there) / len(here | there)


def _plain(draw: random.Random) -> list[Row]:
    if "FT_REAL_DATA" in os.environ:
        path = Path(os.environ["FT_REAL_DATA"]) / "dolly_6400" / "google_flan-t5-small_decode_output.jsonl"
        lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        given = [{"prompt": row["instruction"], "completion": row["text"]} for row in lines]
        long = [row for row in given if row["prompt"] and len(row["completion"]) >= _MIN_CHARACTERS]
        return list({row["prompt"]: row for row in long}.values())[:1000]
    words = [subject(draw).replace(" ", "") for _ in range(4000)]
    return [
        {
            "prompt": f"Write about {' '.join(draw.choices(words, k=6))}.",
            "completion": " ".join(draw.choices(words, k=40)),
        }
        for _ in range(1000)
    ]


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    for name, count in dressed_recall(seed).items():
        print(f"{name:16s} {count:4d} of {_COPIES}")
    right, gone, found, due = wordings(seed)
    print(f"one wording: {right} of {gone} removed rightly, {found} of {due} mistyped copies found")
    if "FT_REAL_DATA" in os.environ:
        print("removed from real rows (rightly, all):", real_precision(seed))


if __name__ == "__main__":
    main()
