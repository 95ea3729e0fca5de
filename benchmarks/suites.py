"""Suites of the catalogue over published items: how many install, how many items are scored as by lm-eval's own task.

The items are those of ``FT_REAL_DATA``, drawn by a seed. What is not there as its data set has it (HellaSwag, BoolQ,
BBQ, MMLU-Pro, MBPP, HumanEval+, StrongREJECT, Global-MMLU, arithmetic) is made in the published columns. The model is
the data's own of 260,032 parameters; where it would write no right answer, in MMLU-Pro and programs, a script answers.
IFEval's items are not compared: lm-eval's task needs downloads. ``python -m benchmarks.suites SEED`` shows each suite.
"""

import json
import os
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from benchmarks.table import Figure
from ft_assets import api
from ft_assets.workers.suites.catalogue.catalogue import GROUPS, read_catalogue
from ft_assets.workers.suites.catalogue.hub import hub_suites
from ft_resources.store_marker import open_store
from tests.needs import contained
from tests.workers.evals.real_suites import make_suite
from tests.workers.suites.beside_lm_eval import are_equal, stock
from tests.workers.suites.hub_rows import installed, lay, rows_of
from tests.workers.suites.published import NAMES, published, roomy_model
from tests.workers.suites.written import mmlu_pro, programs

_ITEMS, _LONG_ITEMS = 40, 10
_LONG = ("gsm8k", "wikitext")
# The files that are laid have no commit.
_COMMIT = "0" * 40


def figures(seeds: Sequence[int] = (1, 2)) -> list[Figure]:
    """``suites_installed`` and ``suite_items_equal_lm_eval``, not measured without FT_REAL_DATA."""
    count, due, equal, items = None, len(read_catalogue().suites) + len(hub_suites()), None, 0
    if "FT_REAL_DATA" in os.environ:
        data = Path(os.environ["FT_REAL_DATA"])
        count = suites_installed(data)
        found = [each for seed in seeds for each in equal_items(data, seed).values()]
        items = sum(map(len, found))
        equal = sum(map(sum, found)) / items
    return [
        Figure(
            key="suites_installed",
            what="suites of the catalogue that install from published files",
            ours=count,
            peer=None,
            peer_is="",
            goal=str(due),
            met=None if count is None else count == due,
        ),
        Figure(
            key="suite_items_equal_lm_eval",
            what=f"items asked and scored as by lm-eval's own task, share of {items:,}",
            ours=equal,
            peer=None,
            peer_is="",
            goal="1",
            met=None if equal is None else equal == 1,
        ),
    ]


def suites_installed(data: Path) -> int:
    """How many suites install from a folder: published files, and rows where a data set of the Hub has its own."""
    with tempfile.TemporaryDirectory(prefix="ft-suites-") as name:
        store, folder = open_store(f"{name}/store", create=True), Path(name) / "files"
        folder.mkdir()
        for path in data.iterdir():
            (folder / path.name).symlink_to(path)
        repos = defaultdict(list)
        for key, suite in hub_suites().items():
            repos[suite.entry.repo].append(key)
            lay(folder / suite.entry.repo, key.removesuffix(".v1"), rows_of(key.removesuffix(".v1"), 1))
        pinned = [group for group in GROUPS if group != "multilingual"]
        api.install_suites(pinned, offline=data, store=store, actor="benchmark")
        for repo, keys in repos.items():
            api.install_suites(keys, source=f"hub:{repo}@{_COMMIT}", offline=folder, store=store, actor="benchmark")
        return len(api.list_suites(store=store))


def equal_items(data: Path, seed: int) -> dict[str, list[bool]]:
    """For each suite, whether each of the items that ``seed`` draws is asked and scored as by lm-eval."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="ft-suites-") as name:
        folder = Path(name)
        loaded = roomy_model(data, folder / "model")
        for suite in NAMES:
            each = published(suite, data, folder / suite, seed, _LONG_ITEMS if suite in _LONG else _ITEMS)
            theirs = stock(loaded, each.task, each.rows, folder / f"{suite}-stock", **each.more)
            found[suite] = are_equal(loaded, each.suite, theirs, each.metric)
        found |= _written(data, folder / "written", seed)
    return found


def _written(data: Path, folder: Path, seed: int) -> dict[str, list[bool]]:
    """The same for suites whose answers are written; programs only where they can be contained."""
    store, found = open_store(str(folder / "store"), create=True), {}
    rows = rows_of("mmlu-pro", seed, _ITEMS)
    found["mmlu-pro"] = mmlu_pro(installed(store, "mmlu-pro", rows, folder / "m"), "mmlu-pro", rows, folder / "m").equal
    if not contained():
        return found
    for name in ("mbpp", "humaneval-plus"):
        rows = rows_of(name, seed, _ITEMS)
        suite = installed(store, name, rows, folder / name)
        found[name] = programs(suite, name, rows, folder / name / "stock").equal
    suite = make_suite("humaneval", data, folder / "humaneval")
    lines = random.Random(seed).sample((suite / "HumanEval.jsonl").read_text().splitlines(), _ITEMS)
    (suite / "HumanEval.jsonl").write_text("\n".join(lines))
    found["humaneval"] = programs(suite, "humaneval", list(map(json.loads, lines)), folder / "humaneval-stock").equal
    return found


if __name__ == "__main__":
    for suite, equal in equal_items(Path(os.environ["FT_REAL_DATA"]), int(sys.argv[1])).items():
        print(f"{suite:16s} {sum(equal):4d} of {len(equal)}")
