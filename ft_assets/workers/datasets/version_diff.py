"""What changed between two curated versions: rows by their content, and the splits that they are in."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.workers.datasets.columns import WEIGHT
from ft_assets.workers.datasets.forms.content_keys import prompt_keys
from ft_assets.workers.datasets.looks import VersionDiff
from ft_assets.workers.datasets.split import SIDES

_BATCH = 4096


def diff_versions(older: Mapping[str, Path], newer: Mapping[str, Path]) -> VersionDiff:
    """The difference between two versions, given as Parquet files by split.

    Memory: some 200 bytes a row of both versions, and one batch.
    """
    before, after = _sides(older), _sides(newer)
    gone, come = before.keys() - after.keys(), after.keys() - before.keys()
    both = before.keys() & after.keys()
    moved: dict[str, Counter[str]] = {}
    for key in both:
        if before[key] != after[key]:
            moved.setdefault(before[key], Counter())[after[key]] += 1
    weights, others = _weights(older), _weights(newer)
    reweighed = sum(weights.get(key, 1.0) != others.get(key, 1.0) for key in both) if weights or others else 0
    prompts, new_prompts = _prompts(older, gone), _prompts(newer, come)
    added, removed = Counter(after[key] for key in come), Counter(before[key] for key in gone)
    changed = 0
    for prompt in prompts.keys() & new_prompts.keys():
        for first, second in zip(prompts[prompt], new_prompts[prompt], strict=False):
            removed[first] -= 1
            added[second] -= 1
            changed += 1
    return VersionDiff(
        rows=(dict(Counter(before.values())), dict(Counter(after.values()))),
        same=len(both),
        added=dict(+added),
        removed=dict(+removed),
        changed=changed,
        moved={side: dict(counts) for side, counts in moved.items()},
        reweighed=reweighed,
    )


def _sides(files: Mapping[str, Path]) -> dict[str, str]:
    """The split of each row, by its id."""
    return {key: side.value for side in SIDES for key in pq.read_table(files[side], columns=["id"])["id"].to_pylist()}


def _weights(files: Mapping[str, Path]) -> dict[str, float]:
    """The weight of each row, by its id; nothing for a version whose rows all count the same."""
    found: dict[str, float] = {}
    for path in files.values():
        if WEIGHT.name in pq.read_schema(path).names:
            table = pq.read_table(path, columns=["id", WEIGHT.name])
            found.update(zip(table["id"].to_pylist(), table[WEIGHT.name].to_pylist(), strict=True))
    return found


def _prompts(files: Mapping[str, Path], wanted: set[str]) -> dict[int, list[str]]:
    """The splits of the wanted rows, by a hash of their prompt, in the files' order."""
    found: dict[int, list[str]] = {}
    for side in SIDES:
        with pq.ParquetFile(files[side]) as file:
            for batch in file.iter_batches(batch_size=_BATCH):
                chosen = np.array([key in wanted for key in batch.column("id").to_pylist()], np.bool_)
                some = batch.filter(pa.array(chosen))
                for prompt in prompt_keys(some).to_pylist() if some.num_rows else ():
                    found.setdefault(prompt, []).append(side.value)
    return found
