"""A row's weight in training: read where the policy names it, and kept beside the row."""

import json
from pathlib import Path
from typing import Any

import pytest

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy, MixSettings, SplitSettings, load_policy
from ft_assets.workers.datasets.forms.parse import Parsed
from ft_assets.workers.datasets.reporting.page import render_page
from ft_assets.workers.datasets.writing import MixSource
from ft_resources.errors import BadData, BadRecipe
from tests.workers.datasets.conftest import SIDES, CurateFiles, Row, WriteRows, pair, told
from tests.workers.datasets.forms.test_fast import assert_same
from tests.workers.datasets.forms.test_meaning import told as warned

OTHER = "acme.other.v1"
WEIGHED = DatasetPolicy(fields={"weight": "trust"})


def read(*weights: Any, **mapped: str) -> Parsed:
    rows = [pair(number, trust=weight) for number, weight in enumerate(weights)]
    form = FormSettings(fields=(("weight", "trust"), *mapped.items()))
    return assert_same("\n".join(map(json.dumps, rows)).encode(), form)


def test_a_weight_is_a_number_or_a_text_with_one() -> None:
    parsed = read(2, 0.5, " 1.25 ", "1e-5")
    assert parsed.examples.column("weight").to_pylist() == [2.0, 0.5, 1.25, 1e-5]
    assert parsed.unused == {}


@pytest.mark.parametrize("weight", [0, -1, "-0.5", "inf", 1e10])
def test_a_weight_that_is_not_above_0_is_refused_by_row_and_field(weight: Any) -> None:
    parsed = read(1, weight)
    assert parsed.bad.to_pylist() == [
        {
            "row": 2,
            "reason": "bad_weight",
            "field": "weight",
            "problem": "the weight should be from 1e-09 to 1e+09; remove rows that should not count",
        }
    ]


@pytest.mark.parametrize("weight", [None, "", "high", "nan", True, [1]])
def test_a_row_without_a_number_there_is_refused(weight: Any) -> None:
    (bad,) = read(1, weight).bad.to_pylist()
    assert (bad["row"], bad["problem"]) == (2, "the weight should be a number")


def test_an_upload_is_refused_by_the_row_with_a_bad_weight(curated: CurateFiles, write: WriteRows) -> None:
    rows = [*(told(number, trust=1) for number in range(150)), told(150, trust=-2)]
    with pytest.raises(BadData) as error:
        curated(write(rows), WEIGHED)
    assert error.value.where == "data.jsonl, row 151, trust"
    assert error.value.what.startswith("the weight should be from")


def test_answers_with_thumbs_have_no_weight() -> None:
    policy = load_policy("form: unpaired_preference\nfields: {weight: trust}", "dataset.yaml")
    with pytest.raises(BadRecipe, match="'weight' is not a field of the form unpaired_preference"):
        FormSettings.of(policy)


@pytest.mark.parametrize("policy", ["", "fields: {prompt: question, completion: answer}"])
def test_a_weight_that_is_not_used_is_told_with_the_line_that_uses_it(policy: str) -> None:
    row: Row = {"prompt": "a", "completion": "b", "weight": 0.5}
    if policy:
        row = {"question": "a", "answer": "b", "weight": 0.5}
    (warning,) = warned(row, policy=policy)
    fields = "completion: answer, prompt: question, weight: weight" if policy else "weight: weight"
    assert f"To use it, put this into dataset.yaml{', in place of its form and fields' if policy else ''}:\n" in warning
    assert f"\nfields: {{{fields}}}\n" in warning
    assert warned(row, policy=f"fields: {{{fields}}}") == ()


def test_each_row_keeps_its_weight_and_the_report_says_their_range(curated: CurateFiles, write: WriteRows) -> None:
    made = curated(write([told(number, trust=1 + number / 8) for number in range(200)]), WEIGHED)
    assert len(made.rows) == 200
    assert all(row["weight"] == 1 + (number - 1) / 8 for (_, number), row in made.rows.items())
    numbers = made.report.splits["train"].weights
    assert numbers is not None
    assert 1 <= numbers.least < numbers.mean < numbers.most <= 1 + 199 / 8
    assert f'<td class="n">{numbers.least:g} to {numbers.most:g}</td>' in render_page(made.report, made.exhibits)


def test_without_the_policys_word_nothing_changes(curated: CurateFiles, write: WriteRows) -> None:
    plain = curated(write([told(number) for number in range(150)]))
    beside = curated(write([told(number, weight=3) for number in range(150)]))
    assert beside.bytes == plain.bytes
    assert "weight" not in beside.tables["train"].column_names
    assert "weights" not in beside.report.model_dump_json()


@pytest.fixture
def source(curated: CurateFiles, write: WriteRows, tmp_path: Path) -> Any:
    def make(policy: DatasetPolicy, **fields: Any) -> tuple[MixSource, ...]:
        split = policy.model_copy(update={"split": SplitSettings(validation=0.02, holdout=0.02)})
        made = curated(write([told(number, **fields) for number in range(1000, 1150)], "other.jsonl"), split)
        train = tmp_path / "other.parquet"
        train.write_bytes((made.folder / "train.parquet").read_bytes())
        return (MixSource(dataset=OTHER, train=train),)

    return make


@pytest.mark.parametrize(("theirs", "weight"), [(DatasetPolicy(), 1.0), (WEIGHED, 4.0)])
def test_mixed_rows_have_their_own_weight_or_1(
    curated: CurateFiles, write: WriteRows, source: Any, theirs: DatasetPolicy, weight: float
) -> None:
    policy = WEIGHED.model_copy(update={"mix": (MixSettings(dataset=OTHER, share=0.2),)})
    made = curated(write([told(number, trust=2) for number in range(150)]), policy, mix=source(theirs, trust=4))
    found = {row["weight"] for row in made.tables["train"].to_pylist() if row["file"] == OTHER}
    assert found == {weight}
    assert {row["weight"] for side in SIDES for row in made.tables[side].to_pylist()} == {2.0, weight}


def test_weights_are_not_lost_by_mixing(curated: CurateFiles, write: WriteRows, source: Any) -> None:
    policy = DatasetPolicy(mix=(MixSettings(dataset=OTHER, share=0.2),))
    with pytest.raises(BadData, match=f"the rows of {OTHER} have weights, and the rows of this version have none"):
        curated(write([told(number) for number in range(150)]), policy, mix=source(WEIGHED, trust=4))
