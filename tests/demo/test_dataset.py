"""The demo's data set: the same every time, answerable from the question alone, and hard to win by guessing."""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from ft_assets.demo import dataset, questions
from ft_assets.settings.dataset.policy import load_policy
from ft_assets.workers.datasets.split import SIDES, Split, sides_of, units_of

# All of them build or read the whole data set.
pytestmark = pytest.mark.statistics

DEMO = Path(dataset.__file__).parent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dataset.DemoDataset:
    return dataset.build_demo_dataset(tmp_path_factory.mktemp("demo") / "demo.jsonl")


@pytest.fixture(scope="module")
def rows(built: dataset.DemoDataset) -> list[dict]:
    return [json.loads(line) for line in built.path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def tasks(rows: list[dict]) -> list[dict]:
    return [row for row in rows if row["kind"] in questions.KINDS]


def answer(row: dict) -> str:
    return row["messages"][1]["content"]


@pytest.mark.statistics
def test_building_twice_gives_the_same_bytes(built: dataset.DemoDataset, tmp_path: Path) -> None:
    again = dataset.build_demo_dataset(tmp_path / "again.jsonl")
    assert again.path.read_bytes() == built.path.read_bytes()


def test_counts_are_those_of_the_file(built: dataset.DemoDataset, rows: list[dict]) -> None:
    assert built.rows == len(rows)
    assert dict(built.counts) == Counter(row["kind"] for row in rows)
    assert 2000 <= built.rows <= 8000
    assert set(built.counts) == {*questions.KINDS, dataset.REPLAY_KIND, dataset.CARE_KIND}


def test_every_row_is_one_question_and_one_short_answer(tasks: list[dict]) -> None:
    for row in tasks:
        assert [m["role"] for m in row["messages"]] == ["user", "assistant"]
        assert 0 < len(answer(row)) <= questions.MAX_ANSWER


def test_every_answer_stands_verbatim_in_its_question(tasks: list[dict]) -> None:
    for row in tasks:
        assert answer(row) in row["messages"][0]["content"], row


def test_no_question_is_asked_twice_so_none_is_on_both_sides_of_a_split_by_source(tasks: list[dict]) -> None:
    prompts = Counter(row["messages"][0]["content"] for row in tasks)
    assert max(prompts.values()) == 1


def test_no_source_module_straddles_and_replay_and_refusals_are_only_trained_on(rows: list[dict]) -> None:
    settings = load_policy((DEMO / "dataset.yaml").read_text(), "dataset.yaml").split
    assert settings.group_by == "source"
    sources = [row["source"] for row in rows]
    units = units_of(pa.array([0] * len(rows), pa.uint64()), pa.array(sources))
    sides = dict(zip(sources, (SIDES[side] for side in sides_of(units, settings).tolist()), strict=True))
    assert sides[dataset.REPLAY_SOURCE] == sides[dataset.CARE_KIND] == Split.TRAIN
    sizes = Counter(sides[row["source"]] for row in rows)
    assert sizes[Split.TRAIN] > 1500
    assert sizes[Split.HOLDOUT] >= 200
    assert len([s for s, side in sides.items() if side == Split.HOLDOUT]) >= 15


def test_always_saying_the_commonest_answer_of_a_kind_does_not_pay(tasks: list[dict]) -> None:
    by_kind: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in tasks:
        by_kind[row["kind"]][answer(row)] += 1
    for kind, tally in by_kind.items():
        assert tally.most_common(1)[0][1] <= 0.08 * tally.total(), kind


def test_no_module_dominates_a_kind(tasks: list[dict]) -> None:
    by_kind: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in tasks:
        by_kind[row["kind"]][row["source"]] += 1
    for kind, tally in by_kind.items():
        assert tally.most_common(1)[0][1] <= 0.15 * tally.total(), kind


def test_replay_rows_are_a_tenth_to_a_fifth_and_come_from_the_shipped_text(
    built: dataset.DemoDataset, rows: list[dict]
) -> None:
    shipped = dataset.REPLAY_FILE.read_text(encoding="utf-8")
    replay = [row for row in rows if row["kind"] == dataset.REPLAY_KIND]
    assert 0.10 <= len(replay) / built.rows <= 0.20
    assert all(message["content"] in shipped for row in replay for message in row["messages"])


def test_the_module_that_makes_the_data_needs_no_torch() -> None:
    code = "import sys, ft_assets.demo.dataset; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


CODE = '''
class Base(Exception): ...
class Child(other.Base): ...

def fetch(url, data=None, timeout=30, *, context='tls'):
    """Not shown."""
'''


@pytest.mark.parametrize(
    ("kind", "asked", "expected"),
    [
        ("default", "What is the default of timeout?", "30"),
        ("default", "What is the default of context?", "'tls'"),
        ("base_class", "What is the base class of Child?", "other.Base"),
    ],
)
def test_each_kind_of_question_has_the_answer_that_a_reader_gives(kind: str, asked: str, expected: str) -> None:
    found = {(q.kind, q.prompt.rsplit("\n", 1)[1]): q for q in questions.questions_in(CODE, "example")}
    assert found[kind, asked].answer == expected
    assert "Not shown" not in found[kind, asked].prompt
