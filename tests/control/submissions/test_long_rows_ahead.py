"""A few rows that are too long end the packing of thousands: they are told before anything runs."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ft_assets.control import identity
from ft_assets.control.planning.ahead import look_ahead
from ft_assets.control.planning.known_base import base_of_recipe
from ft_assets.control.planning.row_sample import LONGEST, ROWS, sample_rows
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.forms.parse import parse_lines
from ft_resources.errors import BadData
from tests.control.submissions.estimate_world import DATASET, World

MANY = "acme.many.v1"
# None of them is held out, or one of 256 evenly spread of 600 rows.
LONG = (3, 5, 302, 304)
HELD_OUT = (0, 1, 12, 31)


def many(world: World, long: tuple[int, ...] = LONG, copies: int = 1) -> bytes:
    """Lines of 600 rows, of which those at the places ``long`` are longer and written ``copies`` times; the version
    ``MANY`` holds them."""
    lines = b"".join(
        json.dumps(
            {"prompt": f"what colour is thing {number}?", "completion": "red " * (60 if number in long else 1)}
        ).encode()
        + b"\n"
        for number in range(600)
        for _ in range(copies if number in long else 1)
    )
    file = world.project.folder / "many.jsonl"
    file.write_bytes(lines)
    add_dataset_version(world.store, file, tenant="acme", name="many", policy=DatasetPolicy(), actor="ann")
    return lines


def curated(world: World, lines: bytes) -> None:
    """All of ``lines`` as the training split of ``MANY``."""
    examples = parse_lines(lines, FormSettings(), ended=True).examples
    ids = pa.array([f"{row:064x}" for row in range(examples.num_rows)], pa.string())
    sink = pa.BufferOutputStream()
    files = pa.repeat("many.jsonl", examples.num_rows)
    pq.write_table(pa.Table.from_batches([examples.append_column("id", ids).append_column("file", files)]), sink)
    facts = {"form": "chat", "held": [], "rows": {"train": 600, "validation": 16, "holdout": 16}}
    world.make(identity.dataset_request(world.artifacts, MANY), facts, train__parquet=sink.getvalue().to_pybytes())


def ahead(world: World, dataset: str, **changes: Any) -> list[str]:
    recipe = register_recipe(world.store, world.project.recipe(**changes), actor="ann").key
    return look_ahead(
        world.artifacts, dataset, get_recipe(world.store, recipe).recipe, base_of_recipe(world.artifacts, recipe)
    )


def told(world: World, overlong: str, key: str = "", dataset: str = MANY, max_length: int = 100) -> list[str]:
    packing = {"max_length": max_length, "overlong": overlong}
    return ahead(world, dataset, key=f"{key or overlong}.v1", packing=packing)


def test_rows_longer_than_the_window_are_told_from_a_sample_before_anything_is_curated(world: World) -> None:
    assert told(world, "reject", "long", DATASET, 40) == []
    about = (
        "119 rows are longer than packing.max_length (36 tokens; the longest has 40) in a sample of 144 of 160 rows: "
    )
    dropped = "packing.overlong: drop will leave out about 82.6% of the rows."
    assert told(world, "drop", "", DATASET, 36) == [about + dropped]
    assert told(world, "truncate", "", DATASET, 36) == [about + "packing.overlong: truncate will shorten them."]
    with pytest.raises(BadData, match=r"119 examples are longer than 36 tokens; .* \(in a sample of 144 of 160 rows\)"):
        told(world, "reject", "", DATASET, 36)


def test_a_template_that_refuses_the_rows_says_so_in_its_own_words_before_anything_is_curated(world: World) -> None:
    (world.project.folder / "strict.jinja").write_text("{{ raise_exception('I want a system message') }}")
    with pytest.raises(BadData, match="I want a system message") as refused:
        ahead(world, DATASET, key="strict.v1", chat_template="strict.jinja")
    assert "of the upload" in refused.value.where


@pytest.mark.parametrize("is_curated", [False, True])
def test_the_longest_rows_are_looked_at_beside_the_evenly_spread_ones(world: World, is_curated: bool) -> None:
    lines = many(world)
    if is_curated:
        curated(world, lines)
    sample = sample_rows(world.artifacts, MANY)
    assert (sample.rows, sample.batch.num_rows, sample.longest.num_rows) == (600, ROWS, LONGEST)
    rows = {row - 1 for row in sample.longest.column("row").to_pylist()}
    assert {*LONG} <= rows
    assert not {*LONG} & {row - 1 for row in sample.batch.column("row").to_pylist()}
    with pytest.raises(
        BadData, match=r"4 examples are longer than 100 tokens; .* \(among the 16 longest of 600 rows\)"
    ):
        told(world, "reject")
    assert told(world, "drop")[0].endswith(
        "among the 16 longest of 600 rows: packing.overlong: drop will leave out them."
    )


def test_a_single_long_row_of_an_upload_may_be_left_out_by_curation_so_it_is_told_and_not_refused(world: World) -> None:
    lines = many(world, LONG[:1])
    (note,) = told(world, "reject")
    assert note.startswith("1 row is longer than packing.max_length (100 tokens; the longest has ")
    assert note.endswith("among the 16 longest of 600 rows: packing will refuse them (packing.overlong: reject).")
    curated(world, lines)
    with pytest.raises(BadData, match="1 example is longer than 100 tokens"):
        told(world, "reject")


def test_long_rows_that_will_be_held_out_are_no_reason_to_refuse(world: World) -> None:
    many(world, HELD_OUT)
    assert told(world, "reject") == []


def test_copies_of_one_long_row_count_once(world: World) -> None:
    many(world, LONG[:1], copies=5)
    (note,) = told(world, "reject")
    assert note.startswith("1 row is longer than packing.max_length (100 tokens;")
