"""Rows in memory are a file of the same rows to every function that takes one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ft_assets.api import add_dataset, submit
from ft_assets.control import identity
from ft_assets.control.recipes.stored import get_recipe
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.fake_base import make_fake_base

Row = dict[str, Any]


class NobodyLooks:
    """An orchestrator that shows nothing."""

    def show_keys(self, **_: str) -> None: ...

    def show_artifacts(self, _: object) -> None: ...


ROWS: list[Row] = [{"prompt": f"which is {n}?", "completion": f"thing {n}", "kind": None} for n in range(120)]
# Structs that differ, and a null that is meant.
CALLED: list[Row] = [
    {
        "messages": [
            {"role": "user", "content": f"Hi {n}"},
            {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"a": n, "b": [None]} if n % 2 else {}}]},
        ]
    }
    for n in range(120)
]


class Frame:
    """A data frame as polars has them: Arrow's stream, and texts as views."""

    def __init__(self, rows: list[Row]) -> None:
        table = pa.Table.from_pylist(rows)
        views = [pa.field(f.name, pa.string_view() if f.type == pa.string() else f.type) for f in table.schema]
        self._table = table.cast(pa.schema(views))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def split(rows: list[Row]) -> Any:
    import datasets

    return datasets.Dataset.from_list(rows)


def stream(rows: list[Row]) -> Any:
    return split(rows).to_iterable_dataset()


def pandas(rows: list[Row]) -> Any:
    import pandas as pd

    return pd.DataFrame(rows, index=range(7, 7 + len(rows)))[::1]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


def added(store: Store, rows: Any) -> list[Row]:
    made = add_dataset(rows, "acme.rows", store=store, actor="ann", orchestrator=NobodyLooks())
    raw = identity.raw_dataset(Artifacts(store), str(made.key))
    (name,) = [each for each in raw.manifest.files if each.endswith("rows.jsonl")]
    return [json.loads(line) for line in raw.read(name).splitlines()]


@pytest.mark.parametrize("rows", [ROWS, CALLED], ids=["texts", "structs"])
@pytest.mark.parametrize("given", [list, tuple, iter, split, stream, pandas, pa.Table.from_pylist, Frame])
def test_rows_of_every_library_are_added_as_they_are(
    store: Store, given: Callable[[list[Row]], Any], rows: list[Row]
) -> None:
    assert added(store, given(rows)) == rows


def test_classes_of_a_dataset_are_read_by_their_names(store: Store) -> None:
    import datasets

    rows = {"text": [f"text {n}" for n in range(120)], "label": [n % 3 - 1 for n in range(120)], "n": list(range(120))}
    features = {
        "text": datasets.Value("string"),
        "label": datasets.ClassLabel(names=["bug", "wish"]),
        "n": datasets.Value("int64"),
    }
    found = added(store, datasets.Dataset.from_dict(rows, features=datasets.Features(features)))
    assert [(row["label"], row["n"]) for row in found[:3]] == [(None, 0), ("bug", 1), ("wish", 2)]


def test_nulls_of_dicts_are_meant(store: Store) -> None:
    rows = [
        {
            **row,
            "messages": [
                row["messages"][0],
                {**row["messages"][1], "tool_calls": [{"name": "f", "arguments": {"a": None}}]},
            ],
        }
        for row in CALLED
    ]
    assert added(store, rows) == rows


def test_a_first_try_takes_rows_by_its_argument_s_name(store: Store, tmp_path: Path) -> None:
    make_fake_base(tmp_path / "base")
    asked = submit(dataset=ROWS, base=str(tmp_path / "base"), store=store)  # type: ignore[call-arg]
    assert asked.submission.dataset == "local.rows.v1"
    assert get_recipe(store, asked.submission.recipe).recipe.method == "sft"


@pytest.mark.parametrize(
    ("rows", "where", "what"),
    [
        ([{"text": "a"}, {"text": {1, 2}}], "rows in memory, row 2", "this row cannot be written as JSON"),
        ([{"text": "a"}, "b"], "rows in memory, row 2", "this is str, not a dict"),
        ({"train": ROWS}, "rows in memory", "this is dict, not rows"),
        (7, "rows in memory", "this is int, not rows"),
        (pa.table({"text": [b"a"]}), "rows in memory", "these rows cannot be written as JSON (binary)"),
        ([], "rows.jsonl", "the file is empty"),
    ],
)
def test_what_are_no_rows_is_refused_by_place(store: Store, rows: Any, where: str, what: str) -> None:
    with pytest.raises(BadData) as error:
        add_dataset(rows, "acme.rows", store=store, actor="ann", orchestrator=NobodyLooks())
    assert error.value.where == where
    assert error.value.what.startswith(what)
