"""Suites against lm-eval's own tasks over the same published rows: every prompt, answer and score."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.workers.suites.beside_lm_eval import are_equal, stock
from tests.workers.suites.hub_rows import STOCK
from tests.workers.suites.published import NAMES, published, roomy_model

DATA = Path(os.environ.get("FT_REAL_DATA", ""))
pytestmark = [pytest.mark.training, pytest.mark.realdata]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return roomy_model(DATA, tmp_path_factory.mktemp("base") / "model")


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
# Made rows of the others are compared in ``test_hub_suites.py``.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in STOCK else name for name in NAMES]
)
def test_items_are_asked_and_scored_as_by_lm_eval(loaded: Any, tmp_path: Path, name: str, seed: int) -> None:
    each = published(name, DATA, tmp_path / "case", seed, {"gsm8k": 3, "wikitext": 6, "mmlu": 6}.get(name, 24))
    theirs = stock(loaded, each.task, each.rows, tmp_path / "stock", **each.more)
    assert are_equal(loaded, each.suite, theirs, each.metric) == [True] * len(theirs)
