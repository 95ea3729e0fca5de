"""Suites of the catalogue over published items: how many install, how many items are scored as by lm-eval's own task.

The items are those of ``FT_REAL_DATA``, drawn by a seed; HellaSwag, BoolQ, Global-MMLU and arithmetic are not there as
their data sets have them, so these items are made. The model is the data's own of 260,032 parameters.
``python -m benchmarks.suites SEED`` shows each suite.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.table import Figure
from ft_assets import api
from ft_assets.workers.suites.catalogue.catalogue import GROUPS, read_catalogue
from ft_resources.store import Store
from tests.workers.suites.beside_lm_eval import are_equal, stock
from tests.workers.suites.published import NAMES, published, roomy_model

_ITEMS, _LONG_ITEMS = 40, 10
_LONG = ("gsm8k", "wikitext")


def figures(seeds: Sequence[int] = (1, 2)) -> list[Figure]:
    """``suites_installed`` and ``suite_items_equal_lm_eval``, not measured without FT_REAL_DATA."""
    count, due, equal, items = None, len(read_catalogue().suites), None, 0
    if "FT_REAL_DATA" in os.environ:
        data = Path(os.environ["FT_REAL_DATA"])
        with tempfile.TemporaryDirectory(prefix="ft-suites-") as store:
            count = len(api.install_suites(GROUPS, offline=data, store=Store(store), actor="benchmark"))
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
    return found


if __name__ == "__main__":
    for suite, equal in equal_items(Path(os.environ["FT_REAL_DATA"]), int(sys.argv[1])).items():
        print(f"{suite:16s} {sum(equal):4d} of {len(equal)}")
