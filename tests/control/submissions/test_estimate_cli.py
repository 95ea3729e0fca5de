"""What people see of an estimate: the commands, the asset's metadata, the job."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ft_assets.cli.main import app
from ft_assets.control.planning.estimate import estimate_training
from ft_assets.control.registry.register import register_recipe
from ft_assets.graph.estimate_metadata import estimate_metadata
from ft_assets.graph.jobs.submissions import fine_tune
from ft_assets.records.submissions import open_submissions
from ft_assets.settings.tenants import load_tenants
from ft_assets.workers.suites.suites import add_suite
from ft_resources.dagster_resources import StoreResource
from tests.control.submissions.estimate_world import DATASET, Tenants, World
from tests.control.submissions.test_estimate_admission import packed
from tests.workers.evals.safety_world import write_safety_suite

Ft = Callable[..., Result]


@pytest.fixture
def ft(world: World, monkeypatch: pytest.MonkeyPatch) -> Ft:
    monkeypatch.chdir(world.project.folder)
    monkeypatch.setenv("FT_STORE", world.project.store_url)
    monkeypatch.setenv("FT_STATE", str(world.project.folder / "state"))
    monkeypatch.setenv("DAGSTER_HOME", str(world.project.folder))
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_ft_estimate_shows_memory_hours_and_price_and_what_they_stand_on(world, ft, tenants) -> None:
    tenants("gpu_prices: {H100: 3.5}\n")
    recipe = packed(world)
    shown = ft("estimate", DATASET, recipe).stdout
    for words in (
        "counted in the token pack",
        "peak memory",
        "GiB",
        "llama with 8,030,261,248 parameters, from config.json",
        "fits the GPU",
        "GPU-hours",
        "time to start and train, on 1 GPU",
        "3.50 USD per hour of one H100",
    ):
        assert words in shown
    found = json.loads(ft("estimate", DATASET, recipe, "--json").stdout)
    assert found["fits"] == "yes"
    assert found["gpu_hours"]["lower"] < found["gpu_hours"]["expected"] < found["gpu_hours"]["upper"]
    assert found["price"]["expected"] == pytest.approx(3.5 * found["gpu_hours"]["expected"])
    assert sum(found["memory_parts"].values()) == pytest.approx(found["memory"]["expected"], rel=0.05)


def test_ft_estimate_takes_a_recipe_file_before_it_is_registered_and_says_at_most_where_it_may_stop_early(world, ft):
    path = world.project.recipe("patient.v1", training={"early_stopping": {"patience": 2}})
    shown = ft("estimate", DATASET, path.name).stdout
    assert "at most 8" in shown
    assert "may stop early" in shown
    shown = ft("estimate", DATASET, world.project.recipe("draft.v1").name)
    assert shown.exit_code == 0, shown.stderr
    assert "at most" not in shown.stdout
    assert "a training on the CPU takes no GPU-hours" in shown.stdout
    assert not world.store.exists("names/recipe/draft.v1.json")


def test_ft_submit_says_what_it_will_take_and_keeps_the_maximum(world: World, ft: Ft) -> None:
    recipe = packed(world)
    result = ft("submit", DATASET, recipe, "--max-gpu-hours", "0.1")
    assert result.exit_code == 0, result.stderr
    assert "estimated: 313 steps, 20,000,000 tokens (counted in the token pack)" in result.stderr
    assert "that exceeds the maximum of 0.1 GPU-hours" in result.stderr
    (submission,) = open_submissions(world.store)
    assert submission.max_gpu_hours == 0.1
    again = ft("submit", DATASET, recipe, "--max-gpu-hours", "2")
    assert "was already submitted and is in progress, with a maximum of 0.1 GPU-hours" in again.stderr
    assert "GPU-hours is invalid" in ft("submit", DATASET, recipe, "--max-gpu-hours", "0").stderr


def test_ft_run_ends_with_the_reason_where_the_training_is_refused(world, ft, monkeypatch) -> None:
    monkeypatch.setattr("ft_resources.launchers.choice.local_gpus", lambda: 1)
    recipe = packed(world, gpu_type="T4")
    result = ft("run", DATASET, recipe)
    assert result.exit_code == 1
    assert "does not fit a T4" in result.stdout
    assert "Lower training.micro_batch_size" in result.stdout


def test_the_job_records_the_maximum_and_shows_the_estimate(world: World) -> None:
    recipe = packed(world)
    config = {"dataset": DATASET, "recipe": recipe, "max_gpu_hours": 0.5}
    result = fine_tune.execute_in_process(
        run_config={"ops": {"record_submission": {"config": config}}},
        resources={"store": StoreResource(url=world.store.url)},
    )
    assert result.success
    (submission,) = open_submissions(world.store)
    assert submission.max_gpu_hours == 0.5
    outputs = [event.step_output_data.metadata for event in result.all_events if event.is_successful_output]
    assert outputs[0]["estimated_steps"].value == 313


def test_the_asset_s_metadata_are_numbers_and_a_table_without_any_row_s_text(world: World, tenants: Tenants) -> None:
    tenants("gpu_prices: {H100: 2}\n")
    recipe = packed(world)
    found = estimate_training(world.artifacts, load_tenants(), DATASET, recipe)
    shown: dict[str, Any] = estimate_metadata(found)
    assert shown["estimated_steps"] == 313
    assert shown["estimated_peak_gib"] == pytest.approx(45, rel=0.1)
    assert shown["estimated_gpu_hours"] == pytest.approx(shown["estimated_price"] / 2, abs=0.01)
    table = shown["estimate"].value
    assert "| GPU-hours |" in table
    assert "counted in the token pack" in table


def test_ft_estimate_says_before_anything_is_made_whether_holdout_and_suites_are_large_enough(
    world: World, ft: Ft, tmp_path: Path
) -> None:
    add_suite(world.store, write_safety_suite(tmp_path / "care"), "care.v1", "ann")
    written = {
        "evaluation": {"suites": ["colours.v1", "care.v1"], "holdout": {"max_samples": 400}},
        "gates": {
            "benchmark_regression": {"max_drop_points": 2.0, "margin_points": 1.0},
            "task_gain": {"metric": "exact_match", "min_relative": 0.05},
            "safety": {},
        },
    }
    path = world.project.recipe("strict.v1", **written)
    found = json.loads(ft("estimate", DATASET, path.name, "--json").stdout)["provable"]
    assert [(each["gate"], each["samples"], each["unit"], each["enough"]) for each in found] == [
        # Of 160 rows the policy's share, as nothing is curated yet.
        ("task_gain", 16, "holdout rows", False),
        ("regression", 24, "items", False),
        ("safety", 60, "harmful prompts", True),
        ("safety", 40, "safe prompts", True),
    ]
    shown = ft("estimate", DATASET, path.name)
    assert "no; about 873 are needed" in shown.stdout, shown.stderr
    recipe = register_recipe(world.store, path, actor="ann").key
    world.pack(recipe)
    curated = ft("estimate", DATASET, recipe)
    assert "16 holdout rows" in curated.stdout
    told = ft("submit", DATASET, recipe).stderr
    assert "regression, colours.v1: 24 items, too few (about 873 are needed)" in told
    assert "safety, care.v1" not in told


def test_of_what_can_be_proved_is_left_out_what_is_not_known_yet_and_without_gates_all(world: World, ft: Ft) -> None:
    path = world.project.recipe("draft.v1", evaluation={"suites": ["colours.v1", "not-there-yet.v1"]})
    own, held = world.project.dataset(200), world.project.dataset(120, "held.jsonl")
    assert ft("dataset", "add", own, "--name", "acme.held", "--holdout", held).exit_code == 0
    found = json.loads(ft("estimate", "acme.held.v1", path.name, "--json").stdout)["provable"]
    assert [(each["gate"], each["on"]) for each in found] == [("regression", "colours.v1")]
    path.write_text(re.sub(r"gates:\n(  .*\n)+", "gates: none\n", path.read_text()))
    assert json.loads(ft("estimate", DATASET, path.name, "--json").stdout)["provable"] == []
    assert "enough" not in ft("estimate", DATASET, path.name).stdout
