"""A sweep at the command line, as far as nothing is trained."""

import dagster as dg
import pytest

from ft_assets.control.sweeps.trial_retirement import mark_decided
from ft_assets.graph.retire_trials import retire_trials
from tests.cli.conftest import DATASET, Ft
from tests.e2e.project import Project

TRIALS = ["rates-t01.v1", "rates-t02.v1"]


@pytest.fixture
def recipe(project: Project):
    path = project.recipe("rates.v1", sweep={"search": "grid", "parameters": {"training.warmup_ratio": [0.0, 0.1]}})
    assert "warmup_ratio" not in path.read_text().split("sweep:")[0]
    return path


def test_a_sweep_is_registered_with_its_trials_which_are_partitions_to_backfill(
    recipe, ft: Ft, instance: dg.DagsterInstance
) -> None:
    added = ft("recipe", "add", recipe)
    assert added.stdout == "rates.v1\n"
    assert "a sweep of 2 trials" in added.stderr
    assert instance.get_dynamic_partitions("recipe") == ["rates.v1", *TRIALS]
    assert not any(trial in ft("recipe", "list").stdout for trial in TRIALS)
    assert all(trial in ft("recipe", "list", "--trials").stdout for trial in TRIALS)
    shown = ft("recipe", "show", "rates.v1").stdout
    assert [line.split()[:3] for line in shown.splitlines() if "a trial of this sweep" in line] == [
        ["rates-t01.v1", "training.warmup_ratio", "0"],
        ["rates-t02.v1", "training.warmup_ratio", "0.1"],
    ]
    assert "0.1" in next(
        line for line in ft("recipe", "show", TRIALS[1]).stdout.splitlines() if "training.warmup_ratio" in line
    )


def test_a_trial_alone_is_no_wish_and_a_mistake_says_so(recipe, ft: Ft, pair: tuple[str, str]) -> None:
    ft("recipe", "add", recipe)
    refused = ft("submit", DATASET, TRIALS[0])
    assert refused.exit_code == 2
    assert "only a sweep's winner is scored on the holdout" in refused.stderr
    asked = ft("submit", DATASET, "rates.v1")
    assert asked.exit_code == 0
    assert "2 trials" in asked.stderr
    shown = ft("status", asked.stdout.strip()).stdout
    assert all(trial in shown for trial in TRIALS)


def test_retired_trials_are_not_listed_again_by_registering_once_more(
    project: Project, recipe, ft: Ft, instance: dg.DagsterInstance
) -> None:
    ft("recipe", "add", recipe)
    mark_decided(project.store, "rates.v1")
    assert retire_trials(project.store, instance) == TRIALS
    assert ft("recipe", "add", recipe).exit_code == 0
    assert instance.get_dynamic_partitions("recipe") == ["rates.v1"]
